"""Turns results into pages, tables and pictures; measures nothing."""
