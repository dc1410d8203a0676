"""The page for operators."""
