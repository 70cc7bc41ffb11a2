"""The operator's terminal: server_command HTTP to a server, or starts one."""
