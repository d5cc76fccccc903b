"""Addresses of the pages and of signing in."""

from django.urls import path

from triage import (
    access,
    action_views,
    bulk_view,
    handing_views,
    history_view,
    people_views,
    rights_views,
    settings_pages,
    views,
)

urlpatterns = [
    path("", views.queue, name="queue"),
    path("pull/<path:uri>", views.pull, name="pull"),
    path("leaderboard", views.leaderboard, name="leaderboard"),
    path("dashboard", views.dashboard, name="dashboard"),
    path("c/<str:did>/data", rights_views.own_data, name="own_data"),
    path("c/<str:did>/data/<str:token>", rights_views.data_by_link, name="data_by_link"),
    path("c/<str:did>/decision/<str:token>", rights_views.decision_by_link, name="decision_by_link"),
    path("c/<str:did>/objection", rights_views.send_objection, name="send_objection"),
    path("c/<str:did>/leaderboard", rights_views.send_wish, name="send_wish"),
    path("c/<str:did>/rights", handing_views.rights, name="rights"),
    path("c/<str:did>/links", handing_views.hand_link, name="hand_link"),
    path("c/<str:did>/links/<int:number>/revoke", handing_views.take_link, name="take_link"),
    path("objections", handing_views.objections, name="objections"),
    path("objections/answer", handing_views.answer_objection, name="answer_objection"),
    path("c/<path:did>", views.contributor, name="contributor"),
    path("settings", settings_pages.settings_list, name="settings_list"),
    path("settings/repository", settings_pages.repository_settings, name="repository_settings"),
    path("settings/shadow", settings_pages.switch_shadow, name="switch_shadow"),
    path("history/<path:uri>", history_view.history, name="history"),
    path("act", action_views.act, name="act"),
    path("act/undo", action_views.undo, name="undo"),
    path("act/bulk", bulk_view.bulk_approve, name="bulk_approve"),
    path("act/look", action_views.look, name="look"),
    path("people", people_views.people, name="people"),
    path("people/role", people_views.change_role, name="change_role"),
    path("changes", people_views.changes, name="changes"),
    path("sign-in", access.sign_in, name="sign_in"),
    path("sign-in/demo", access.demo_sign_in, name="demo_sign_in"),
    path("sign-in/<str:token>", access.sign_in_link, name="sign_in_link"),
    path("sign-out", access.sign_out, name="sign_out"),
]
