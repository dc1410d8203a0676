"""The store on MySQL and MariaDB."""
