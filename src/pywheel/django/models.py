"""What the admin lists, and the rights to see it and to change it. There is no table: the store has the jobs."""

from __future__ import annotations

from typing import Any

from django.db import models

__all__ = ["Job"]


class _NoRows(models.Manager):
    """Finds nothing, so that commands which walk all models, such as dumpdata, ask no table that is not there."""

    def get_queryset(self) -> Any:
        return super().get_queryset().none()


class Job(models.Model):
    """A job of the store."""

    id = models.BigIntegerField(primary_key=True)
    objects = _NoRows()

    class Meta:
        """Not to be migrated; the rights are to view and to change."""

        app_label = "pywheel"
        managed = False
        default_permissions = ("view", "change")
        verbose_name = "job"
