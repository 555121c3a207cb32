"""Every limit that bounds what a stranger can cost, together with its reason. Units come last."""

FRAME_BYTES_MAX = 100 * 1024 * 1024
"""Kafka's `socket.request.max.bytes`. Checked before a byte of the frame is buffered."""

MESSAGE_BYTES_MAX = 16 * 1024 * 1024
"""A request that carries no records. Its fields become objects of many times their bytes."""

MESSAGE_ELEMENTS_MAX = 50_000
"""Array elements of one such request, at every depth together. Each becomes an object and is
answered for, some microseconds apiece during which nobody else is served; 16 MiB hold millions."""

CREATE_TOPICS_MAX = 1_000
"""Topics one CreateTopics may name. Telling all settings of one takes half a millisecond, and
`validate_only` would let a stranger ask for that without end."""

METADATA_CREATES_TOPICS_MAX = 100
"""Topics one Metadata request may bring into being. Each is a folder and a commit; clients ask
again for those that are left."""

FRAME_BYTES_MIN = 8
"""api key, api version, correlation id: nothing shorter can be a request."""

RECEIVE_BUFFER_BYTES = 16 * 1024
"""What an idle connection holds. Grows only with bytes that have really arrived."""

RECEIVE_BUSY_BYTES_MAX = 512 * 1024
"""What a connection that keeps filling its buffer gets, so that one read brings many frames. It is
given back when the connection rests."""

RECEIVE_GROWTH_BYTES_MAX = 4 * 1024 * 1024
"""The most a receive buffer grows ahead of the bytes received, whatever size a frame claims."""

FRAME_WAIT_S_MAX = 30.0
"""A frame that has begun must be complete by then unless it keeps above `FRAME_RATE_BYTES_MIN`."""

FRAME_RATE_BYTES_MIN = 1024
"""Bytes a second a slow but honest sender must keep up after `FRAME_WAIT_S_MAX`."""

CONNECTION_IDLE_S_MAX = 600.0
"""Kafka's `connections.max.idle.ms`."""

CONNECTIONS_MAX = 10_000
"""Descriptors are finite; past this a new connection is closed at once."""

CONNECTIONS_PER_ADDRESS_MAX = 2_000
"""One host can not take every place. (Loopback is exempt: tests and proxies live there.)"""

REQUESTS_IN_FLIGHT_MAX = 128
"""Requests of one connection being worked on; then its socket is not read until one is answered."""

OUTBOX_BYTES_MAX = 8 * 1024 * 1024
"""Answers a peer has not read yet; then its requests are not read until it catches up."""

OUTBOX_WAIT_S_MAX = 30.0
"""A peer that reads nothing for so long, with its outbox full, is gone."""

TOPIC_NAME_CHARS_MAX = 249
"""A file name holds 255 characters; `-` and the partition number need the rest."""

PARTITIONS_PER_TOPIC_MAX = 10_000
"""Each is a folder and some descriptors; a typo in a count must not fill the disk with folders."""

PARTITIONS_PER_BROKER_MAX = 100_000
"""As above, for many topics."""

TAGGED_FIELDS_MAX = 32
"""Unknown tagged fields of one section; real clients send none or a few (CVE-2026-111115)."""

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
"""What one record batch may expand to, whatever its header says: a bomb is not inflated."""

FETCH_SESSIONS_MAX = 1_000
"""Kafka's `max.incremental.fetch.session.cache.slots`."""

FETCH_SESSION_PARTITIONS_MAX = 100_000
"""Partitions remembered for fetch sessions altogether, so that sessions can not hoard memory."""

FETCH_BYTES_MAX = 55 * 1024 * 1024
"""Kafka's `fetch.max.bytes`: the most one Fetch answer carries (plus one batch if larger)."""

PRODUCERS_PER_PARTITION_MAX = 100_000
"""Producer ids remembered for one partition; the oldest is forgotten first."""

PRODUCER_BATCHES_REMEMBERED = 5
"""The protocol's window: an idempotent client keeps at most five batches in flight."""

GROUP_METADATA_BYTES_MAX = 16 * 1024 * 1024
"""What all members of a classic group together say of themselves, and what they are assigned: all
of it is one record, written anew with every generation. Ten thousand members need a tenth."""

GROUP_PENDING_MEMBERS_MAX = 50_000
"""Member ids that were given out by one group and not used yet: anybody can ask for them."""

GROUP_REGEXES_MAX = 32
"""Different regular expressions in one consumer group: each is kept with all topics it matches."""

ERROR_MESSAGE_CHARS_MAX = 1_000
"""Longer words are cut: they quote what a stranger sent, and a string holds 32,767 bytes."""

HEALTH_HEAD_BYTES_MAX = 8 * 1024
"""The head of a request to the health listener: probes send a few hundred bytes."""

HEALTH_CONNECTIONS_MAX = 64
"""Connections to the health listener at once: probes come one by one, and go."""

HEALTH_WAIT_S_MAX = 5.0
"""How long a connection to the health listener lasts, whatever its peer does or does not do."""
