"""Addresses of the pages and of signing in."""

from django.urls import path
from django.views.generic import RedirectView

from triage.access import sign_in
from triage.views import (
    about,
    actions,
    contributor,
    dashboard,
    inbox,
    incidents,
    maintainers,
    ops,
    people,
    reports,
    settings,
    setup,
)
from triage.views import diff as diff_view
from triage.views import diff as history_view
from triage.views import feed as feed_view
from triage.views import lane as lane_view
from triage.views import lists as list_views
from triage.views import queue as views
from triage.views import tokens as token_views

urlpatterns = [
    path("", inbox.queue, name="queue"),
    path("live", views.live, name="live"),
    path("pull/<path:uri>", inbox.pull, name="pull"),
    path("leaderboard", views.leaderboard, name="leaderboard"),
    path("dashboard", dashboard.dashboard, name="dashboard"),
    path("c/<str:did>/data", contributor.own_data, name="own_data"),
    path("c/<str:did>/data/<str:token>", contributor.data_by_link, name="data_by_link"),
    path("c/<str:did>/decision/<str:token>", contributor.decision_by_link, name="decision_by_link"),
    path("c/<str:did>/objection", contributor.send_objection, name="send_objection"),
    path("c/<str:did>/leaderboard", contributor.send_wish, name="send_wish"),
    path("c/<str:did>/rights", maintainers.rights, name="rights"),
    path("c/<str:did>/links", maintainers.hand_link, name="hand_link"),
    path("c/<str:did>/links/<int:number>/revoke", maintainers.take_link, name="take_link"),
    path("objections", maintainers.objections, name="objections"),
    path("objections/answer", maintainers.answer_objection, name="answer_objection"),
    path("c/<path:did>", views.contributor, name="contributor"),
    path("settings", settings.settings_list, name="settings_list"),
    path("settings/repository", settings.repository_settings, name="repository_settings"),
    path("settings/shadow", settings.switch_shadow, name="switch_shadow"),
    path("diff/<path:uri>", diff_view.diff, name="diff"),
    path("patch/<path:uri>", diff_view.raw_patch, name="raw_patch"),
    path("feed/<path:name>", feed_view.atom_feed, name="feed"),
    path("about", about.about, name="about"),
    path("find", about.find, name="find"),
    path("api", about.api_reference, name="api_reference"),
    path("docs", RedirectView.as_view(pattern_name="api_reference"), name="docs"),  # where many look for it
    path("setup", setup.setup, name="setup"),
    path("setup/find", setup.find_repositories, name="find_repositories"),
    path("setup/looking", setup.setup_looking, name="setup_looking"),
    path("setup/progress", setup.setup_progress, name="setup_progress"),
    path("setup/begin", setup.begin_watching, name="begin_watching"),
    path("history/<path:uri>", history_view.history, name="history"),
    path("act", actions.act, name="act"),
    path("act/undo", actions.undo, name="undo"),
    path("act/bulk", actions.bulk_approve, name="bulk_approve"),
    path("act/look", actions.look, name="look"),
    path("people", people.people, name="people"),
    path("people/role", people.change_role, name="change_role"),
    path("changes", people.changes, name="changes"),
    path("tokens", token_views.tokens, name="tokens"),
    path("tokens/make", token_views.make_token, name="make_token"),
    path("tokens/<int:number>/revoke", token_views.end_token, name="revoke_token"),
    path("audit", incidents.answer_audit, name="answer_audit"),
    path("audits", list_views.audits, name="audits"),
    path("settled", list_views.settled, name="settled"),
    path("snoozed", list_views.snoozed, name="snoozed"),
    path("snooze", list_views.snooze, name="snooze"),
    path("filters/save", list_views.save_filter, name="save_filter"),
    path("filters/delete", list_views.drop_filter, name="drop_filter"),
    path("snooze/end", list_views.show_now, name="show_now"),
    path("outcomes", list_views.answer_outcomes, name="answer_outcomes"),
    path("incidents", list_views.incidents, name="incidents"),
    path("incidents/handle", list_views.handle_incident, name="handle_incident"),
    path("incident/<str:key>", incidents.incident, name="incident"),
    path("lane", lane_view.lane, name="lane"),
    path("lane/estimate", lane_view.open_estimate, name="open_estimate"),
    path("lane/estimate/end", lane_view.end_estimate, name="end_estimate"),
    path("lane/time", lane_view.time_reading, name="time_reading"),
    path("lane/close", incidents.close, name="close_lane"),
    path("lane/open", incidents.reopen, name="open_lane"),
    path("vouches", reports.vouches, name="vouches"),
    path("redteam", reports.redteam, name="redteam"),
    path("backtest", reports.backtest, name="backtest"),
    path("ops/metrics", ops.metrics, name="ops_metrics"),
    path("sign-in", sign_in.sign_in, name="sign_in"),
    path("sign-in/password", sign_in.set_password, name="set_password"),
    path("sign-in/demo", sign_in.demo_sign_in, name="demo_sign_in"),
    path("sign-in/<str:token>", sign_in.sign_in_link, name="sign_in_link"),
    path("sign-out", sign_in.sign_out, name="sign_out"),
]
