"""A small model of Kafka's rules, and a judge of histories: which response do the rules allow?

history       a history of one cluster as plain data, from a recorded dialogue or from a running engine
events        what the requests of a history ask, and what their responses say
producers     idempotence: one producer on one partition (KIP-98, KIP-360)
transactions  one transactional id at its coordinator (KIP-98, KIP-360, KIP-890)
classic       one group whose members send JoinGroup and SyncGroup
consumers     one group whose members send ConsumerGroupHeartbeat (KIP-848)
judging       plays a history on the model, and names the first response that the rules do not allow
anomalies     Adya's and Elle's anomalies in the values that clients have sent and read
observing     reads these values from a history

The model follows Kafka's documents and sources. It imports nothing of the broker's core, so it does not share the core's
defects. If the model does not know something, for example whether a marker is written already, it keeps every possible state.
Each response then removes the states that do not allow it.
"""
