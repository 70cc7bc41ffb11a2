"""What clients ask for: runs, threads, commands, answers, reruns and keys."""
