"""Addresses of the pages and of signing in."""

from django.urls import path

from triage import access, action_views, bulk_view, history_view, settings_pages, views

urlpatterns = [
    path("", views.queue, name="queue"),
    path("pull/<path:uri>", views.pull, name="pull"),
    path("leaderboard", views.leaderboard, name="leaderboard"),
    path("dashboard", views.dashboard, name="dashboard"),
    path("c/<path:did>", views.contributor, name="contributor"),
    path("settings", settings_pages.settings_list, name="settings_list"),
    path("settings/repository", settings_pages.repository_settings, name="repository_settings"),
    path("settings/shadow", settings_pages.switch_shadow, name="switch_shadow"),
    path("history/<path:uri>", history_view.history, name="history"),
    path("act", action_views.act, name="act"),
    path("act/undo", action_views.undo, name="undo"),
    path("act/bulk", bulk_view.bulk_approve, name="bulk_approve"),
    path("act/look", action_views.look, name="look"),
    path("sign-in", access.sign_in, name="sign_in"),
    path("sign-in/demo", access.demo_sign_in, name="demo_sign_in"),
    path("sign-in/<str:token>", access.sign_in_link, name="sign_in_link"),
    path("sign-out", access.sign_out, name="sign_out"),
]
