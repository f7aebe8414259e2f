"""Images with any number of labels each:
read tables of them, and divide them so that parts share the labels.
"""
