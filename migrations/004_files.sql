-- Keys of signed links to files, made when one is first asked for. A key is a secret that signs, so
-- it is kept as text; it opens files of its sandbox alone and goes with it.

CREATE TABLE signing_key (
	sandbox_id TEXT PRIMARY KEY REFERENCES sandbox (id) ON DELETE CASCADE,
	key TEXT NOT NULL,
	created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
