"""The operator's terminal: talks HTTP to a server, or starts one."""
