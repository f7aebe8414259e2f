"""Scripts that measure in a process of their own and print one JSON document, and the code that starts them."""
