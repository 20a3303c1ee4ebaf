"""What the columns and the rivals of each bench mean, for the page of figures (``bench.page``)."""

from __future__ import annotations

__all__ = ["EXPLAINED"]

_BOOLEAN = """The rivals are a linear scan and, in *boolean-intervals*, the Python package rule-engine.

- *index*: from a checked Arrow table to the numbers of the subscriptions that match.
- *engine*: `engine.publish(table, grouped=True)`, which checks the table, matches, and makes an Arrow table of ids.
- *one alone*: a table with a single publication through the engine. Most of this time is spent reading Arrow columns.
- *scan*: a linear scan in numba over the bare bounds with an early exit, into memory that is allocated before. It
  checks nothing and makes no ids, so compare it with *index* (*scan ÷ index*) and not with *engine*.
- *load*: `tg.Engine(subscriptions)` from CQL2-JSON. *fold*: building the index again from its clauses. *open*:
  `tg.Engine.load` of a snapshot.
- *add*, *remove*: per subscription, with one publication after every hundred, merges of segments included.
- *bytes/sub*: all arrays of the index, divided by the number of subscriptions.
"""

#: By the name of the bench, in Markdown.
EXPLAINED = {
    "boolean-intervals": _BOOLEAN,
    "boolean-equality": "The columns are those of *boolean-intervals*.\n",
    "one-at-a-time": """\
`engine.publish` with one publication per call. *p50*, *p99* and *CPU* are of a call; making the publication is not
counted. *scan* is the early-exit scan of *boolean-intervals* for one publication; it checks nothing and makes no ids.
*in batches* is the index in batches of 4,096, for patterns the engine with all publications in one call.

- *object*, *table of one row*: twenty numbers, subscriptions as in *boolean-intervals*; exact beside the scan.
- *matches*: the notifications of a call as objects.
- *grouped, everything matches*: `grouped=True` in batches of 256; the ids as strings, and as a dictionary.
- *subscribe, then publish*: both calls together. *first after 2,000 subscribed*: the slowest of two.
- families of patterns: each subscription looks at one station, and each publication is of one of 1,000 stations (200
  for all families), so that it concerns one subscription of each family and the others are idle. Nothing is fulfilled.
  Exact beside an engine that got the same publications in one call.
- *past with a history*: SQLite; *commit* is the time until the events are durable.
- *two threads*: the time of one thread for 2,000 publications, divided by that of two with 1,000 each.
""",
    "cupus": """\
The columns are those of *boolean-intervals*. *as the paper* draws subscriptions as the experiment does; the
other mixes show the extremes. If most subscriptions match, making the strings of ids is most of the engine's work, and
the bare scan is several times faster than the engine.
""",
    "places": """\
Places and points are uniform in a square of ten degrees, polygons have twelve corners. *in batches* is
`engine.publish(table)` with 4,096 publications, from the table to the notifications; *one alone* is
`engine.publish([publication])`. The rival is shapely's STRtree with the predicate *intersects*, which gives pairs of
numbers; for circles it has their boxes, and numpy computes the distances (alone it gives boxes only). Both take turns.

- *boxes* are `BBOX`, which are ranges of longitude and latitude and not looked up as places.
- *counties of Nebraska*: real outlines of up to some hundred corners, and real warnings at places in and around them.
- *exact*: the same pairs of publication and place.
- *load*: `tg.Engine(subscriptions)` from CQL2-JSON. *bytes/sub*: all arrays of the index.
""",
    "pipeline": """\
Publications go from the log through Spark (`local[2]`) to grouped Parquet.

- *publications/s*: the median batch, from the end of one batch to the end of the next, with Spark's planning and
  checkpoints. The first batch of a run, which maps snapshots and starts workers, is left out.
- *bare kernel*: the same publications and the same snapshot through the index alone, half in each of two processes.
- *broadcast join*: Spark SQL joins the publications with a broadcast table of subscriptions, `BETWEEN` for all
  attributes. *filter columns*: Spark SQL computes one Boolean column per subscription; timed once, with compilation.
- *plumbing*: one subscription that never matches, to see what Spark alone costs.
- *append → callback*: from the call of `Log.append` (fsync included) to the call of the Python function, at 1,000
  publications/s, after 200 batches, when Java has compiled its code. These runs have the stage of patterns, as a run
  has unless it says `patterns = false`; the others say so.
- *where the time goes*: the median batch in milliseconds. *planning* is Spark's; *checkpoint* are its two logs; *JVM ↔
  Python and tasks* is the Spark job less the time inside the task; *reading* is the task less kernel and writing, so it
  includes waiting for the reference from the Python worker of the source.
""",
    "runner-in-process": """\
Subscriptions as in *boolean-intervals*, so narrow that one publication in twenty matches something. The run has the
stage of patterns, as runs have; all layers of the registry were made before. *exact*: the ids of all notifications are
those that one call of `Engine.publish` gives; for latencies, every publication that had to be told was told.

- *drained*: a log that was filled before, in batches of 50,000. *live*: another process appends as fast as it can, each
  append durable, and every batch is what is there.
- *loading*: from `start` to the end of the first batch, which maps the layers; *publications/s* and *publications per
  CPU s* are of all batches after it. CPU seconds are of the runner's process.
- *append → callback*: from the call of `Log.append` in another process to the call of the Python function, at 1,000
  publications/s. *fdatasync*: 4 KiB in another file of the same disk, by the process that appends, between its appends.
- *where the time goes*: *reading* and *matching* are the select stage, *combine* the stage of patterns with nothing to
  do; *record and waiting* is the record of batches, one `fdatasync` each, and waiting for publications.
""",
    "topk": """\
k is 10. Publications are uniform in the unit square at regular times. Each subscription has its own centre,
or its own two weights. The window is filled twice before the measured rounds.

- *publications/s*: `engine.publish(table, grouped=True)` with a thread per core; *flat* makes one row per notification.
- *compiled*: the obvious implementation in numba on one core: one window for all, the k best of each subscription kept
  aside, the window searched when one of them expires. It runs for at most 1,000 subscriptions and is scaled up.
- *Python*: the same with a deque per subscription, for 10 subscriptions and scaled up.
- *exact*: everything that the engine told over the whole run was compared with *compiled* for these 1,000 subscriptions
  (all of 100 and 1,000), and with *Python* for 10.
""",
    "together": """\
The readings are SensorScope's (EPFL, Grand St Bernard 2007; not part of the project), at places of our own.

- The ranges of subscriptions are median ± u·X with P(X > x) = 1/x for x ≥ 1, and u 1 °C, 1 °C, 2 %, 0.06 m/s and 15°.
  The paper (Jurca et al.) gives no unit; u is about a tenth of the interquartile range. Half of the subscriptions name
  sources, half are abstract.
- *readings*: how many the medians are of. The measured rounds are early ones among them, which the median of all suits
  less. The number of notifications per publication decides how fast it is.
- *Python*: a deque per filter and subscription, for at most 10,000 subscriptions and scaled up.
- *exact*: the notifications of 200 subscriptions were compared, with all their publications.
""",
    "shapes-in-streams": """\
100 sources publish in turn. Readings and shapes are random walks, or white noise where one shape
of five is a stretch of the readings (otherwise nothing would match). Windows are filled before the measured rounds.

- *readings/s*: `engine.publish(table, grouped=True)`. *ε ÷ √n*: the tolerance; √2 is the distance of shapes that have
  nothing in common.
- *numpy*: a deque per source, one normal form per reading, one call for the distances to all subscriptions.
- *one by one*: normal form and distance for each subscription, for 10 subscriptions and scaled up.
- *state bytes/source*: the largest after a round, less that of the first reading.
- *exact*: the notifications of 50 subscriptions were compared, with publication and distance (to 1e-9).
""",
    "patterns-on-spark": """\
The same publications and subscriptions go from the log through Spark to grouped Parquet. *in process* is one engine
with as many threads as cores. *combine* is the step of the slowest shard, *writing what it tells* its Parquet. All
notifications were compared, by their number and by a sum over subscription, publication and time.
""",
    "history": """\
An engine with 1,000 `past` subscriptions over 100 inner filters remembers events in SQLite. `publish`
returns after the events are durable (write-ahead log, `synchronous = FULL`).

- *one source*: subscriptions also name a source, so that about ten of them look at a publication. *all publications*:
  they do not, and all of them look at it.
- *select*, *past*, *making rows*, *durable write*: where the time of a call goes. *rest* is mostly notifications.
- *numpy in memory*: the same conditions by hand, one call of numpy per condition and publication, nothing durable, for
  some of the publications. The notifications of some subscriptions were compared.
""",
    "queues": """\
A publication goes to 100 principals, each of whom has two subscriptions; of ten deliveries one was matched by both. A
commit is durable when it returns, in every storage.

- *writing*: `Queues.commit`, from arrays; *the whole sink*: from the references that a run hands to the sink, sorting
  and giving them to queues included, with a registry that answers at once. The rate counts until everything is merged;
  *p50* and *p99* are of a commit. The first round, which makes the queues, is left out.
- *1,000 each*: 100,000 principals, drawn while they are written. *replay*: a new reader reads a queue from its first
  delivery; *with content*: the same by `tg.OpenQueues.page`, with every publication read from the log. *dropped*: the
  files were dropped from the page cache before (`posix_fadvise`); the remark says how much of them stayed there.
  *restarts*: from opening to the end of a first commit; the process before was killed.
- *side by side*: the same deliveries in each storage. The rivals keep less: no names of queues, no meaning of
  subscriptions, no checksums of their own over what they read (RocksDB has some), and they hold the last number of each
  queue in memory. SQLite has a table by queue and number (write-ahead log, `synchronous = FULL`); LMDB and RocksDB
  have keys of queue and number, and a commit is one synced transaction or `WriteBatch`. Their bytes are counted after
  RocksDB was compacted and SQLite's log was emptied; everything fits into memory, which is kind to trees.
- *append → reader*: from the call of `Log.append` in one process to the item with its content in another; between them
  is `tidegate run` with the runner *process*. The principal is told of every publication. *fdatasync* are bare syncs of
  4 KiB by the publisher in the same seconds.
- *exact*: the last number of every queue and all deliveries of some queues were compared with what was drawn; at
  *append → reader* all items and their order.

Deliveries are kept in sorted files of Tidegate's own because a run commits a whole batch at a time: one frame, one
write and one sync make it durable, where a tree or a table pays for every delivery by itself. Frames are flat arrays,
which numpy sorts, writes and merges without a Python object per delivery, and what a subscription means stands once in
a file and not with each of its deliveries. The rivals are faster at replay in a warm cache, where their reader checks
no checksums and makes tuples without names, and open in a time that does not grow with the number of queues. RocksDB,
which compresses, also takes fewer bytes, commits small batches as fast, and reads far faster what is in no cache: there
a replay of ours touches some blocks of every file, and waits for the disk for each of them.
""",
    "initial-matches": """\
A log of publications that are valid for days, and the sink of a run, which commits cuts at its end: nobody publishes
meanwhile. Times are of a commit: making the queue, compiling the subscriptions, the pass over the valid set, and the
deliveries, durable. Subscriptions are of a principal of their own each time; *CPU ms* is the median of all threads.

- *numbers*: two intervals; *a text and a number*: one text of a thousand, and an interval.
- *unpublished*: one publication at a time that some queue has; *initial matches* are the retractions.
- *taken into the set*: the first commit, which reads the log. *opened again*: the sink of the next run.
- *exact*: the matches of the first 200 subscriptions of each commit were counted in numpy.

""",
    "mqtt": """\
`tidegate serve` with the runner *process*, bridged to a Mosquitto with persistence, and clients with raw sockets, all
on the same machine. The bare loop is gmqtt with the event loop of the bridge: it writes the payloads that have come to
a file, syncs once for all that wait, and acknowledges them; it looks at none. The two take turns in each round, with
the same messages and as many of them on their way, and a round ends when all of its messages are durable.

- *µs of CPU each*: processor time of the process of the bridge, or of the bare loop, by messages.
- *in and out*: every message becomes a notification that goes out again; the times are from the publish to that.
- *exact*: the log has what was published, in its order; each notification came once, with the numbers in a row.
""",
    "costs": """\
Comparisons of two attributes out of twenty, and in their middle one pattern with three filters and 30 seconds. All are
measured once, as a broker measures them, with the newest 2,000 of 4,000 publications; *CPU s* has all that this takes.

- *by the sum*: what was found of all subscriptions, added up; *measured as one*: all of them in one index.
- *exact*: the pattern came first, and cost ten times as much as the next.
""",
    "gateway": """\
`tidegate serve` with an empty file of settings, its runner, and the clients, which are one process of their own with
raw sockets; all on the same two cores. Each client has a token of its own and keeps its connection.

- *clients alone*: the same clients with a server that answers at once, or sends what is read: what they reach at most.
- *posts of …*: a client posts again when it was answered. Publications have an id, a source, a time, a text and four
  numbers. *bare app*: a Starlette app on uvicorn with the same loop and HTTP implementation, which appends bodies to a
  file, syncs once for all that wait and answers 202: no token, no check, no dedupe, no runner, and it does not look
  into bodies. The one *that reads JSON* decodes them with Starlette's `request.json()` and writes each publication as a
  line. The servers take turns in each round; a *ratio* is the median of the rounds' ratios.
- *post → WebSocket*: from the write of the request to the notification, at a steady rate whatever the answers do. The
  principal is told of every publication; 0.05 of the other subscriptions match one.
- *notifications to many*: each connection is of a principal of its own, and a publication is for the 100 principals of
  a room. More comes than can be delivered; the rate is that of all notifications until the last is there. *kB each* is
  what the gateway's processes grew by from before the connections until everything was delivered.
- *a tenth of the connections stalled*: these read nothing, on sockets with little room, and read on after each round;
  the rate is that of the other nine tenths, beside rounds in which all read.
- *exact*: what was acknowledged is in the log, in the order of each client, and nothing else; every notification was
  compared with the one that had to come next, and its number with the one before.
""",
    "webhooks": """\
`tidegate serve` with the runner in process, the receivers in a process of their own, and the publisher, all on the same
two cores. Each publication goes to ten of the endpoints that live, and to as many dead ones where there are some; it is
published over HTTP at a steady rate. Late is from the write of the request that publishes to the arrival at the
receiver. Of the dead a quarter each refuse connections, never answer, answer after five seconds, and answer 500. Both
brokers take turns in each round, and are started anew for it, with all endpoints verified before. *exact*: each
endpoint that lives was sent what it must be, in order and once.
""",
    "ontology": """\
Classes, things and regions are generated. *plain IN* has the same sets of terms written out. *asking while
matching* is one SPARQL ASK per pair on the closed graph (pyoxigraph), for some of the pairs and scaled up.
""",
    "texts": """\
Texts of 60 letters and patterns of one or two words of 4 to 9 letters are drawn; the lines of a log of OpenSSH are
real, and its patterns are pieces of lines. All on one core.

- *in batches*: 2,000 texts from an Arrow table to grouped notifications. *alone*: `publish` of one publication.
- *ahocorasick_rs*: an automaton over the longest piece of each pattern; where a piece occurs, its patterns are checked.
- *scan*: one pattern after the other, each until it is decided, for 20 texts.
- *load*: from subscriptions as CQL2-JSON to an engine that has published and is done with building segments.
- *exact*: all pairs of the two were compared, and those of 20 texts with the scan.
""",
    "timeseries": """\
The experiments of Manassiev and Jacobsen 2004, with FAISS beside their structures, and on real data. The
table here has whole matches only. [Its own page](../bench/papers/timeseries/README.md) has the figures, what agrees
with the paper and what does not, and the goals.

- *cascade*, *scan*, *interval*, *rstar*, *FAISS*: from a publication in normal form to its exact matches, on two cores.
- *rtree's own candidates*: the search of the R*-tree's library, on one core, which ends with boxes. *rstar* walks the
  same tree in compiled code of ours and verifies what it finds.
- *engine*: subscriptions from CQL2-JSON, publications from an Arrow table to grouped notifications.
- *one at a time*: µs per publication, on one core; of the engine, from an object to a list of notifications.
- Rows without times are figures and classifications, which are on that page.
""",
    "temporal-kbn": """\
The evaluation of Stevens 2009 on three databases, with the scanning method of the thesis beside
Tidegate. [Its own page](../bench/papers/temporal_kbn/README.md) has the tables and figures, the goals, and what was not
reached.
""",
}
