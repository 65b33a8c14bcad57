"""Programs for the maintainers of this repository; the wheel contains none of them."""
