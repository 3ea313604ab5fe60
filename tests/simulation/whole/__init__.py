"""A simulated world with everything in it: every request, every timer and every act, on clusters in memory and on disk.

schedule   a setting and a list of steps, made from a seed
world      an engine, its clients, its disk and the time; plays a step
asking     steps that send requests; the generators of the random dialogues make the requests
habits     requests that clients send because of earlier requests
acts       steps that are not requests: deeds, faults, restarts, the disk and the clock
shown      the state that the brokers describe
done       the state that the accepted requests have caused, to compare with `shown`
remembering  the state that brokers keep over a restart
answering  each response is about the things in its request
describing  the values in responses that describe the state
reading    the records that readers get
sharing    members of share groups keep the records that they have acquired
permitting clients may do what the ACLs allow, and nothing else
throttling clients are throttled if they exceed their quotas
settling   groups whose members send heartbeats become stable
holding    the conditions that must hold
agreeing   the parts of the state of an engine agree with each other
pairs      the pairs of kinds of steps that have met, in order, about the same thing or not
campaign   many schedules, the smallest failing one, and the ledger
"""
