-- What was started in a sandbox and is known by an id: sessions, terminals, interpreter contexts,
-- detached execs. Their state and output live in the sandbox's agent; a row tells which start of
-- the sandbox (its column starts) an id belongs to, so that ids of before a stop are known as such.

ALTER TABLE sandbox ADD COLUMN starts INTEGER NOT NULL DEFAULT 0;

-- kind is enum process_kind of include/caisson/process.h, which never renumbers. task names it in
-- the agent, '' for a terminal that waits for its first client.
CREATE TABLE process (
	sandbox_id TEXT NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE,
	kind INTEGER NOT NULL,
	id TEXT NOT NULL,
	task TEXT NOT NULL,
	start INTEGER NOT NULL,
	created_ms INTEGER NOT NULL,
	cwd TEXT,
	env BLOB NOT NULL,
	cols INTEGER NOT NULL,
	rows INTEGER NOT NULL,
	lazy INTEGER NOT NULL,
	PRIMARY KEY (sandbox_id, kind, id)
) STRICT, WITHOUT ROWID;

-- A keyed exec runs once: key, body and exec id are here before it is started. started = 1: the
-- agent has had it, so that it is not started again when the agent knows it no more.
CREATE TABLE exec_key (
	sandbox_id TEXT NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE,
	key TEXT NOT NULL,
	digest BLOB NOT NULL,
	exec_id TEXT NOT NULL,
	started INTEGER NOT NULL,
	created_ms INTEGER NOT NULL,
	PRIMARY KEY (sandbox_id, key)
) STRICT, WITHOUT ROWID;
