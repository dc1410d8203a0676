"""The model for the admin, with the rights to view and to change jobs. It has no table: the jobs are in the store."""

from __future__ import annotations

from typing import Any

from django.db import models


class _NoRows(models.Manager):
    """A manager without rows, so that commands for all models, such as dumpdata, query no missing table."""

    def get_queryset(self) -> Any:
        return super().get_queryset().none()


class Job(models.Model):
    """A job of the store."""

    id = models.BigIntegerField(primary_key=True)
    objects = _NoRows()

    class Meta:
        """No migrations; the rights are to view and to change."""

        app_label = "pywheel"
        managed = False
        default_permissions = ("view", "change")
        verbose_name = "job"
