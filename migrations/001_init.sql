-- First schema. Times are wall-clock milliseconds, 0 = none. States are enum sandbox_state of
-- include/caisson/core.h, which never renumbers: 0 creating, 1 starting, 2 started, 3 stopping,
-- 4 stopped, 5 destroying, 6 destroyed, 7 error.

CREATE TABLE org (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	created_by TEXT NOT NULL,
	created_ms INTEGER NOT NULL,
	updated_ms INTEGER NOT NULL,
	max_cpu INTEGER NOT NULL,
	max_memory_gib INTEGER NOT NULL,
	max_disk_gib INTEGER NOT NULL
) STRICT;

CREATE TABLE user (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	email TEXT NOT NULL,
	created_ms INTEGER NOT NULL
) STRICT;

-- A key is known by the SHA-256 of its text; the text itself is never stored.
CREATE TABLE api_key (
	hash BLOB PRIMARY KEY,
	org_id TEXT NOT NULL REFERENCES org (id),
	user_id TEXT NOT NULL REFERENCES user (id),
	name TEXT NOT NULL,
	prefix TEXT NOT NULL,
	suffix TEXT NOT NULL,
	permissions TEXT NOT NULL,
	created_ms INTEGER NOT NULL,
	last_used_ms INTEGER NOT NULL,
	expires_ms INTEGER NOT NULL,
	UNIQUE (org_id, user_id, name)
) STRICT;

CREATE TABLE image (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	layer TEXT NOT NULL,
	user TEXT NOT NULL,
	workdir TEXT NOT NULL,
	bytes INTEGER NOT NULL,
	files INTEGER NOT NULL,
	created_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX image_layer ON image (layer);

CREATE TABLE snapshot (
	id TEXT PRIMARY KEY,
	org_id TEXT NOT NULL REFERENCES org (id),
	name TEXT NOT NULL,
	image TEXT NOT NULL,
	general INTEGER NOT NULL,
	state TEXT NOT NULL,
	bytes INTEGER NOT NULL,
	cpu INTEGER NOT NULL,
	memory_gib INTEGER NOT NULL,
	disk_gib INTEGER NOT NULL,
	created_ms INTEGER NOT NULL,
	updated_ms INTEGER NOT NULL,
	last_used_ms INTEGER NOT NULL,
	UNIQUE (org_id, name)
) STRICT;

CREATE INDEX snapshot_general ON snapshot (name) WHERE general = 1;
CREATE INDEX snapshot_image ON snapshot (image);

-- org_id is '' while a sandbox is parked in the warm pool (warm = 1). Names are unique in an
-- organization; a sandbox being deleted is renamed, so its name is free at once. Of a destroyed one
-- no row is left.
CREATE TABLE sandbox (
	id TEXT PRIMARY KEY,
	org_id TEXT NOT NULL,
	name TEXT NOT NULL,
	snapshot TEXT NOT NULL,
	snapshot_id TEXT NOT NULL,
	layer TEXT NOT NULL,
	user TEXT NOT NULL,
	region TEXT NOT NULL,
	labels BLOB NOT NULL,
	env BLOB NOT NULL,
	is_public INTEGER NOT NULL,
	network_block_all INTEGER NOT NULL,
	no_new_privs INTEGER NOT NULL,
	warm INTEGER NOT NULL,
	network_allow_list TEXT,
	domain_allow_list TEXT,
	cpu INTEGER NOT NULL,
	memory_gib INTEGER NOT NULL,
	disk_gib INTEGER NOT NULL,
	state INTEGER NOT NULL,
	desired INTEGER NOT NULL,
	error_reason TEXT NOT NULL,
	recoverable INTEGER NOT NULL,
	auto_stop_min INTEGER NOT NULL,
	auto_pause_min INTEGER NOT NULL,
	auto_archive_min INTEGER NOT NULL,
	auto_delete_min INTEGER NOT NULL,
	auto_destroy_ms INTEGER NOT NULL,
	created_ms INTEGER NOT NULL,
	updated_ms INTEGER NOT NULL,
	last_activity_ms INTEGER NOT NULL,
	stopped_ms INTEGER NOT NULL,
	ip4 TEXT NOT NULL,
	ip6 TEXT NOT NULL,
	workdir TEXT NOT NULL
) STRICT;

-- Each index is a page more that every create writes: one that only rare calls use isn't here.
CREATE UNIQUE INDEX sandbox_name ON sandbox (org_id, name);
CREATE INDEX sandbox_activity ON sandbox (org_id, last_activity_ms, id);
CREATE INDEX sandbox_state ON sandbox (state);
CREATE INDEX sandbox_warm ON sandbox (snapshot, state) WHERE warm = 1;
CREATE INDEX sandbox_ttl ON sandbox (auto_destroy_ms) WHERE auto_destroy_ms > 0;

-- For the search by label; reading a sandbox takes the column labels.
CREATE TABLE label (
	sandbox_id TEXT NOT NULL REFERENCES sandbox (id) ON DELETE CASCADE,
	key TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (sandbox_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX label_pair ON label (key, value, sandbox_id);

CREATE TABLE idempotency (
	org_id TEXT NOT NULL,
	key TEXT NOT NULL,
	digest BLOB NOT NULL,
	sandbox_id TEXT NOT NULL,
	created_ms INTEGER NOT NULL,
	PRIMARY KEY (org_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_age ON idempotency (created_ms);

CREATE TABLE audit (
	id INTEGER PRIMARY KEY,
	at_ms INTEGER NOT NULL,
	org_id TEXT NOT NULL,
	user_id TEXT NOT NULL,
	key_name TEXT NOT NULL,
	key_prefix TEXT NOT NULL,
	key_suffix TEXT NOT NULL,
	action TEXT NOT NULL,
	target_type TEXT NOT NULL,
	target_id TEXT NOT NULL,
	status INTEGER NOT NULL,
	error TEXT NOT NULL,
	address TEXT NOT NULL,
	user_agent TEXT NOT NULL,
	source TEXT NOT NULL
) STRICT;

CREATE INDEX audit_org ON audit (org_id, at_ms);

-- What happened to a sandbox beyond its states: memory exhaustion.
CREATE TABLE event (
	id INTEGER PRIMARY KEY,
	at_ms INTEGER NOT NULL,
	sandbox_id TEXT NOT NULL,
	kind TEXT NOT NULL,
	text TEXT NOT NULL
) STRICT;

CREATE INDEX event_sandbox ON event (sandbox_id, id);
