# This file makes the folder a package for Cython, so that its modules are known by their full names.
