"""The session, intermediate tables, schemas and sentences as Spark has them."""
