"""What a value is: kinds of expressions, annotations, calls of libraries, parts of one memory."""
