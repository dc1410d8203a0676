"""The store on PostgreSQL."""
