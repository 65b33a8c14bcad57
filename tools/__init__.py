"""Programs for the maintainers of this repository; nothing of it goes into the wheel."""
