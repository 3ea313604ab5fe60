"""The parts of scripts/record-dialogues: playing on several brokers at once, and what is asked of them."""
