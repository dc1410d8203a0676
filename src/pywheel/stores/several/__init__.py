"""Several stores side by side as one: ids say which store a job lives in."""
