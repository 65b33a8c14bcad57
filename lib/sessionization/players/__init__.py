"""The numbers of players and days that a studio asks for, kept in tables from `sessions`."""
