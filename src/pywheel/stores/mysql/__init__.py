"""The store on MySQL and MariaDB."""

from .store import MysqlStore

__all__ = ["MysqlStore"]
