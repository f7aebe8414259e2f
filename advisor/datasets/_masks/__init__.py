"""Images with a class for each pixel: folders of masks, tables of them, and COCO;
read, and divided.
"""
