"""A pretended outside that follows from one seed: loop, network, clock, chance, work, disk.

Knows virtual time and every fault it may inject. Does not know real time, threads, real files
or sockets, nor what the program under test is for.
"""
