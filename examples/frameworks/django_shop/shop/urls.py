from django.contrib import admin
from django.urls import path

from . import views

urlpatterns = [
    path("orders", views.orders),
    path("orders/<int:number>", views.order),
    path("orders/<int:number>/pay", views.pay),
    path("admin/", admin.site.urls),
]
