# What makes a package of this folder for Cython, so that a module in it is known by its full name.
