"""Git as tests call it, by an author of their own."""

import subprocess


def git(folder, *words, **options):
    """The answer of a git command in a folder."""
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    command = ["git", "-C", folder, *author, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout
