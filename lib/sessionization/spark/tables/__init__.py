"""The Delta tables: their schemas, where they are, how they are created, merged and viewed."""
