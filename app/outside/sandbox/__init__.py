"""What runs between the server and one sandboxed program: a supervisor process and the kernel's walls around it.

The server starts `__main__` as a script. Only the standard library is imported here, because the start of every
program waits for it.
"""
