"""A simulated world with everything in it: every request, every timer and every act, on clusters in memory and on disk.

schedule   a schedule, which is data: a setting and a list of steps. A seed makes it
world      an engine, its clients, its disk and the time; plays a step
asking     steps that send requests, which the generators of the random dialogues make
habits     requests that clients send because of earlier ones
acts       steps that are not requests: deeds, faults, restarts, the disk and the clock
shown      what the brokers say of their state
done       what the accepted requests have done, to be compared with `shown`
remembering  what brokers remember over a restart
answering  responses are about what was asked
reading    what readers get
settling   groups whose members send heartbeats become stable
holding    what must hold
agreeing   the parts of the state of an engine agree with each other
pairs      which two kinds of steps have met, in which order, on the same object or not
campaign   many schedules, the smallest failing one, and the ledger
"""
