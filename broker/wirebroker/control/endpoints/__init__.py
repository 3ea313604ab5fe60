"""What the endpoints do, by what they are about, each with the forms of what it takes and gives."""
