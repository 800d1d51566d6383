"""Lessons: graphs as people have them, questions as people type them, and their walks. README.md has the format."""
