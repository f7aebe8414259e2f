"""The command line: one module for each command; it parses options, calls the public function and prints."""
