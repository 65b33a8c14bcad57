"""The streams of the event map `default`, as tests write them."""

PC_STREAM = "pc_sessions"
CONSOLE_STREAM = "console_sessions"
STREAMS = (PC_STREAM, CONSOLE_STREAM)
