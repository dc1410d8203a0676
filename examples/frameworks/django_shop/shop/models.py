from django.db import models


class Order(models.Model):
    state = models.CharField(max_length=10, default="unpaid")
    mails = models.IntegerField(default=0)
    invoiced = models.BooleanField(default=False)
