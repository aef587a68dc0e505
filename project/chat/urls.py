"""``/chat/`` and what is below it."""

from django.urls import path

from project.chat import views

app_name = "chat"

urlpatterns = [
    path("", views.sessions, name="sessions"),
    path("new", views.new_session, name="new"),
    path("rendered", views.rendered, name="rendered"),
    path("<uuid:session_id>/", views.session, name="session"),
    path("<uuid:session_id>/messages", views.post_message, name="post"),
    path("<uuid:session_id>/rename", views.rename, name="rename"),
    path("<uuid:session_id>/export", views.export, name="export"),
    path("<uuid:session_id>/delete", views.delete, name="delete"),
    path("<uuid:session_id>/m/<int:message_id>/", views.branch, name="branch"),
    path("<uuid:session_id>/m/<int:message_id>/text", views.text, name="text"),
    path("<uuid:session_id>/m/<int:message_id>/picture/<int:number>", views.picture, name="picture"),
    path("<uuid:session_id>/m/<int:message_id>/edit", views.edit_message, name="edit"),
    path("<uuid:session_id>/m/<int:message_id>/regenerate", views.regenerate, name="regenerate"),
    path("<uuid:session_id>/m/<int:message_id>/copy", views.copy, name="copy"),
    path("<uuid:session_id>/m/<int:message_id>/hand-over", views.hand_over, name="hand_over"),
    path("<uuid:session_id>/m/<int:message_id>/carry-over", views.carry_over, name="carry_over"),
    path("<uuid:session_id>/m/<int:message_id>/pin", views.pin, name="pin"),
    path("<uuid:session_id>/m/<int:message_id>/cut", views.cut, name="cut"),
    path("<uuid:session_id>/m/<int:message_id>/correct/<int:summary_id>", views.correct, name="correct"),
    path("<uuid:session_id>/m/<int:message_id>/undo/<int:summary_id>", views.undo, name="undo"),
]
