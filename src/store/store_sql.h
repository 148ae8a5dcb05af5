/*
 * store_sql.h - every SQL statement of the daemon, one table; the unit test prepares all of them
 * and reads their query plans.
 *
 * Column lists start with a comma, so that one macro serves "SELECT 0 <list>" and
 * "INSERT (rowid <list>)"; fields are therefore columns 1 and up.
 */
#ifndef CAISSON_STORE_STORE_SQL_H
#define CAISSON_STORE_STORE_SQL_H

/* ---- columns: kind, field of the struct, column ---- */

#define ORG_COLUMNS(X)                                                                             \
	X(COL_TEXT, id, id)                                                                        \
	X(COL_TEXT, name, name)                                                                    \
	X(COL_TEXT, created_by, created_by)                                                        \
	X(COL_I64, created_ms, created_ms)                                                         \
	X(COL_I64, updated_ms, updated_ms)                                                         \
	X(COL_UINT, max_cpu, max_cpu)                                                              \
	X(COL_UINT, max_memory_gib, max_memory_gib)                                                \
	X(COL_UINT, max_disk_gib, max_disk_gib)

#define USER_COLUMNS(X)                                                                            \
	X(COL_TEXT, id, id)                                                                        \
	X(COL_TEXT, name, name)                                                                    \
	X(COL_TEXT, email, email)                                                                  \
	X(COL_I64, created_ms, created_ms)

#define KEY_COLUMNS(X)                                                                             \
	X(COL_TEXT, k.org_id, org_id)                                                              \
	X(COL_TEXT, k.user_id, user_id)                                                            \
	X(COL_TEXT, k.name, name)                                                                  \
	X(COL_TEXT, prefix, prefix)                                                                \
	X(COL_TEXT, suffix, suffix)                                                                \
	X(COL_TEXT, k.permissions, permissions)                                                    \
	X(COL_I64, k.created_ms, created_ms)                                                       \
	X(COL_I64, k.last_used_ms, last_used_ms)                                                   \
	X(COL_I64, k.expires_ms, expires_ms)

#define IMAGE_COLUMNS(X)                                                                           \
	X(COL_TEXT, id, id)                                                                        \
	X(COL_TEXT, name, name)                                                                    \
	X(COL_TEXT, layer, layer)                                                                  \
	X(COL_TEXT, user, user)                                                                    \
	X(COL_TEXT, workdir, workdir)                                                              \
	X(COL_U64, bytes, bytes)                                                                   \
	X(COL_U64, files, files)                                                                   \
	X(COL_I64, created_ms, created_ms)

#define SNAPSHOT_COLUMNS(X)                                                                        \
	X(COL_TEXT, id, id)                                                                        \
	X(COL_TEXT, org_id, org_id)                                                                \
	X(COL_TEXT, name, name)                                                                    \
	X(COL_TEXT, image, image)                                                                  \
	X(COL_BOOL, general, general)                                                              \
	X(COL_TEXT, state, state)                                                                  \
	X(COL_U64, bytes, bytes)                                                                   \
	X(COL_UINT, cpu, cpu)                                                                      \
	X(COL_UINT, memory_gib, memory_gib)                                                        \
	X(COL_UINT, disk_gib, disk_gib)                                                            \
	X(COL_I64, created_ms, created_ms)                                                         \
	X(COL_I64, updated_ms, updated_ms)                                                         \
	X(COL_I64, last_used_ms, last_used_ms)

/* env is last: the list leaves it out. */
#define SANDBOX_COLUMNS_LIST(X)                                                                    \
	X(COL_TEXT, s.id, id)                                                                      \
	X(COL_TEXT, s.org_id, org_id)                                                              \
	X(COL_TEXT, s.name, name)                                                                  \
	X(COL_TEXT, s.snapshot, snapshot)                                                          \
	X(COL_TEXT, s.snapshot_id, snapshot_id)                                                    \
	X(COL_TEXT, layer, layer)                                                                  \
	X(COL_TEXT, s.user, user)                                                                  \
	X(COL_TEXT, s.region, region)                                                              \
	X(COL_KV, s.labels, labels)                                                                \
	X(COL_BOOL, s.is_public, is_public)                                                        \
	X(COL_BOOL, s.network_block_all, network_block_all)                                        \
	X(COL_BOOL, s.no_new_privs, no_new_privs)                                                  \
	X(COL_BOOL, s.warm, warm)                                                                  \
	X(COL_HEAP, s.network_allow_list, network_allow_list)                                      \
	X(COL_HEAP, s.domain_allow_list, domain_allow_list)                                        \
	X(COL_UINT, s.cpu, cpu)                                                                    \
	X(COL_UINT, s.memory_mib, memory_mib)                                                      \
	X(COL_UINT, s.disk_gib, disk_gib)                                                          \
	X(COL_UINT, s.state, state)                                                                \
	X(COL_UINT, s.desired, desired)                                                            \
	X(COL_TEXT, s.error_reason, error_reason)                                                  \
	X(COL_BOOL, s.recoverable, recoverable)                                                    \
	X(COL_I64, s.auto_stop_min, auto_stop_min)                                                 \
	X(COL_I64, s.auto_pause_min, auto_pause_min)                                               \
	X(COL_I64, s.auto_archive_min, auto_archive_min)                                           \
	X(COL_I64, s.auto_delete_min, auto_delete_min)                                             \
	X(COL_I64, s.auto_destroy_ms, auto_destroy_ms)                                             \
	X(COL_I64, s.created_ms, created_ms)                                                       \
	X(COL_I64, s.updated_ms, updated_ms)                                                       \
	X(COL_I64, s.last_activity_ms, last_activity_ms)                                           \
	X(COL_I64, stopped_ms, stopped_ms)                                                         \
	X(COL_TEXT, s.ip4, ip4)                                                                    \
	X(COL_TEXT, s.ip6, ip6)                                                                    \
	X(COL_TEXT, s.workdir, workdir)                                                            \
	X(COL_I64, starts, starts)

#define SANDBOX_COLUMNS(X)                                                                         \
	SANDBOX_COLUMNS_LIST(X)                                                                    \
	X(COL_KV, s.env, env)

#define PROCESS_COLUMNS(X)                                                                         \
	X(COL_TEXT, sandbox, sandbox_id)                                                           \
	X(COL_UINT, kind, kind)                                                                    \
	X(COL_TEXT, id, id)                                                                        \
	X(COL_TEXT, task, task)                                                                    \
	X(COL_I64, start, start)                                                                   \
	X(COL_I64, created_ms, created_ms)                                                         \
	X(COL_HEAP, cwd, cwd)                                                                      \
	X(COL_KV, env, env)                                                                        \
	X(COL_UINT, cols, cols)                                                                    \
	X(COL_UINT, rows, rows)                                                                    \
	X(COL_BOOL, lazy, lazy)

#define SQL_NAME_(kind, field, column)	", " #column
#define SQL_PARAM_(kind, field, column) ", ?"

#define SQL_GET(list, table) "SELECT 0" list(SQL_NAME_) " FROM " table
#define SQL_INSERT(list, table)                                                                    \
	"INSERT INTO " table " (rowid" list(SQL_NAME_) ") VALUES (NULL" list(SQL_PARAM_) ")"

/* ---- the list of sandboxes: six orders, two directions, by organization or by label ---- */

/* ?1 org, (?2, ?3) the cursor's key and id, ?4 limit, ?5 state bits, then the filters, ?28 offset.
 */
#define LIST_FILTER_                                                                               \
	" AND ((?5 >> state) & 1)"                                                                 \
	" AND (?6 IS NULL OR substr(id, 1, length(?6)) = lower(?6))"                               \
	" AND (?7 IS NULL OR substr(lower(name), 1, length(?7)) = lower(?7))"                      \
	" AND (?8 IS NULL OR kv_has(labels, ?8))"                                                  \
	" AND (?9 IS NULL OR instr(?9, char(10) || snapshot || char(10)))"                         \
	" AND (?10 IS NULL OR instr(?10, char(10) || region || char(10)))"                         \
	" AND cpu BETWEEN ?11 AND ?12"                                                             \
	" AND memory_mib BETWEEN ?13 AND ?14"                                                      \
	" AND disk_gib BETWEEN ?15 AND ?16"                                                        \
	" AND (?17 < 0 OR is_public = ?17)"                                                        \
	" AND (?18 < 0 OR recoverable = ?18)"                                                      \
	" AND created_ms BETWEEN ?19 AND ?20"                                                      \
	" AND last_activity_ms BETWEEN ?21 AND ?22"                                                \
	" AND auto_destroy_ms BETWEEN ?23 AND ?24"                                                 \
	" AND (?25 OR state <> 7 OR desired <> 6)"

#define LIST_SQL_(from, key, cmp, dir)                                                             \
	"SELECT 0" SANDBOX_COLUMNS_LIST(SQL_NAME_) " FROM " from "org_id = ?1 AND (" key           \
						   ", id) " cmp " (?2, ?3)" LIST_FILTER_           \
						   " ORDER BY " key " " dir ", id " dir            \
						   " LIMIT ?4 OFFSET ?28"

#define LIST_BY_ORG_ "sandbox WHERE "
#define LIST_BY_LABEL_                                                                             \
	"label CROSS JOIN sandbox ON id = sandbox_id WHERE key = ?26 AND value = ?27 AND "

#define LIST_ROWS_(X, tag, from)                                                                   \
	X(ST_LIST_##tag##_ACTIVITY_D, 0, LIST_SQL_(from, "last_activity_ms", "<", "DESC"))         \
	X(ST_LIST_##tag##_ACTIVITY_A, 0, LIST_SQL_(from, "last_activity_ms", ">", "ASC"))          \
	X(ST_LIST_##tag##_NAME_D, 0, LIST_SQL_(from, "name", "<", "DESC"))                         \
	X(ST_LIST_##tag##_NAME_A, 0, LIST_SQL_(from, "name", ">", "ASC"))                          \
	X(ST_LIST_##tag##_CPU_D, 0, LIST_SQL_(from, "cpu", "<", "DESC"))                           \
	X(ST_LIST_##tag##_CPU_A, 0, LIST_SQL_(from, "cpu", ">", "ASC"))                            \
	X(ST_LIST_##tag##_MEMORY_D, 0, LIST_SQL_(from, "memory_mib", "<", "DESC"))                 \
	X(ST_LIST_##tag##_MEMORY_A, 0, LIST_SQL_(from, "memory_mib", ">", "ASC"))                  \
	X(ST_LIST_##tag##_DISK_D, 0, LIST_SQL_(from, "disk_gib", "<", "DESC"))                     \
	X(ST_LIST_##tag##_DISK_A, 0, LIST_SQL_(from, "disk_gib", ">", "ASC"))                      \
	X(ST_LIST_##tag##_CREATED_D, 0, LIST_SQL_(from, "created_ms", "<", "DESC"))                \
	X(ST_LIST_##tag##_CREATED_A, 0, LIST_SQL_(from, "created_ms", ">", "ASC"))

/* ---- the table: id, whether a full scan is meant, text ---- */

#define STATEMENTS(X)                                                                              \
	X(ST_BEGIN, 0, "BEGIN IMMEDIATE")                                                          \
	X(ST_COMMIT, 0, "COMMIT")                                                                  \
	X(ST_ROLLBACK, 0, "ROLLBACK")                                                              \
	X(ST_ORG_INSERT, 0, SQL_INSERT(ORG_COLUMNS, "org"))                                        \
	X(ST_ORG_GET, 0, SQL_GET(ORG_COLUMNS, "org WHERE id = ?1"))                                \
	X(ST_ORG_BY_NAME, 0, SQL_GET(ORG_COLUMNS, "org WHERE name = ?1"))                          \
	X(ST_ORG_LIMITS, 0,                                                                        \
	  "UPDATE org SET max_cpu = ?2, max_memory_gib = ?3, max_disk_gib = ?4, updated_ms = ?5"   \
	  " WHERE id = ?1 AND (max_cpu, max_memory_gib, max_disk_gib) <> (?2, ?3, ?4)")            \
	X(ST_USER_INSERT, 0, SQL_INSERT(USER_COLUMNS, "user"))                                     \
	X(ST_USER_GET, 0, SQL_GET(USER_COLUMNS, "user WHERE id = ?1"))                             \
	X(ST_USER_BY_NAME, 0, SQL_GET(USER_COLUMNS, "user WHERE name = ?1"))                       \
	X(ST_KEY_INSERT, 0,                                                                        \
	  "INSERT INTO api_key (hash" KEY_COLUMNS(SQL_NAME_) ") VALUES (?" KEY_COLUMNS(            \
		  SQL_PARAM_) ")")                                                                 \
	X(ST_KEY_FIND, 0, "SELECT hash" KEY_COLUMNS(SQL_NAME_) " FROM api_key WHERE hash = ?1")    \
	X(ST_KEY_GET, 0,                                                                           \
	  "SELECT hash" KEY_COLUMNS(                                                               \
		  SQL_NAME_) " FROM api_key WHERE org_id = ?1 AND user_id = ?2 AND name = ?3")     \
	X(ST_KEY_LIST, 0,                                                                          \
	  "SELECT hash" KEY_COLUMNS(                                                               \
		  SQL_NAME_) " FROM api_key WHERE org_id = ?1 ORDER BY created_ms, name")          \
	X(ST_KEY_DELETE, 0,                                                                        \
	  "DELETE FROM api_key WHERE org_id = ?1 AND user_id = ?2 AND name = ?3")                  \
	X(ST_KEY_USED, 0, "UPDATE api_key SET last_used_ms = ?2 WHERE hash = ?1")                  \
	X(ST_IMAGE_INSERT, 0, SQL_INSERT(IMAGE_COLUMNS, "image"))                                  \
	X(ST_IMAGE_UPDATE, 0,                                                                      \
	  "UPDATE image SET layer = ?2, user = ?3, workdir = ?4, bytes = ?5, files = ?6,"          \
	  " created_ms = ?7 WHERE id = ?1")                                                        \
	X(ST_IMAGE_GET, 0, SQL_GET(IMAGE_COLUMNS, "image WHERE name = ?1"))                        \
	X(ST_IMAGE_LIST, 1, SQL_GET(IMAGE_COLUMNS, "image ORDER BY name"))                         \
	X(ST_IMAGE_DELETE, 0, "DELETE FROM image WHERE name = ?1")                                 \
	X(ST_IMAGE_ON_LAYER, 0, "SELECT count(*) FROM image WHERE layer = ?1")                     \
	X(ST_SNAPSHOT_INSERT, 0, SQL_INSERT(SNAPSHOT_COLUMNS, "snapshot"))                         \
	X(ST_SNAPSHOT_UPDATE, 0,                                                                   \
	  "UPDATE snapshot SET image = ?2, general = ?3, state = ?4, bytes = ?5, cpu = ?6,"        \
	  " memory_gib = ?7, disk_gib = ?8, updated_ms = ?9 WHERE id = ?1")                        \
	X(ST_SNAPSHOT_BY_ID, 0,                                                                    \
	  SQL_GET(SNAPSHOT_COLUMNS, "snapshot WHERE id = ?2 AND (org_id = ?1 OR general = 1)"))    \
	X(ST_SNAPSHOT_BY_NAME, 0,                                                                  \
	  SQL_GET(SNAPSHOT_COLUMNS, "snapshot WHERE org_id = ?1 AND name = ?2"))                   \
	X(ST_SNAPSHOT_GENERAL, 0,                                                                  \
	  SQL_GET(SNAPSHOT_COLUMNS, "snapshot WHERE general = 1 AND name = ?2 AND ?1 = ?1"))       \
	X(ST_SNAPSHOT_USED, 0, "UPDATE snapshot SET last_used_ms = ?2 WHERE id = ?1")              \
	X(ST_SNAPSHOT_DROP, 0, "DELETE FROM snapshot WHERE image = ?1")                            \
	X(ST_SNAPSHOT_COUNT, 1,                                                                    \
	  "SELECT count(*) FROM snapshot WHERE (org_id = ?1 OR general = 1)"                       \
	  " AND (?2 IS NULL OR instr(lower(name), lower(?2)))")                                    \
	X(ST_SNAPSHOT_LIST, 1,                                                                     \
	  SQL_GET(SNAPSHOT_COLUMNS, "snapshot WHERE (org_id = ?1 OR general = 1)"                  \
				    " AND (?2 IS NULL OR instr(lower(name), lower(?2)))"           \
				    " ORDER BY last_used_ms DESC, name LIMIT ?3 OFFSET ?4"))       \
	X(ST_SANDBOX_INSERT, 0, SQL_INSERT(SANDBOX_COLUMNS, "sandbox"))                            \
	X(ST_SANDBOX_BY_ID, 0,                                                                     \
	  SQL_GET(SANDBOX_COLUMNS, "sandbox WHERE id = ?2 AND (?1 IS NULL OR org_id = ?1)"))       \
	X(ST_SANDBOX_BY_NAME, 0,                                                                   \
	  SQL_GET(SANDBOX_COLUMNS, "sandbox WHERE org_id = ?1 AND name = ?2"))                     \
	X(ST_SANDBOX_NAMED, 0, "SELECT id FROM sandbox WHERE org_id = ?1 AND name = ?2")           \
	X(ST_SANDBOX_EDGE, 0,                                                                      \
	  "UPDATE sandbox SET state = ?3, desired = coalesce(?4, desired), error_reason = ?5,"     \
	  " recoverable = ?6, ip4 = coalesce(?7, ip4), ip6 = coalesce(?8, ip6), updated_ms = ?9,"  \
	  " stopped_ms = iif(?3 = 4, ?9, stopped_ms), starts = starts + (?3 = 2)"                  \
	  " WHERE id = ?1 AND state = ?2")                                                         \
	X(ST_SANDBOX_RENAME, 0,                                                                    \
	  "UPDATE sandbox SET name = 'DESTROYED_' || name || '_' || ?2 WHERE id = ?1")             \
	X(ST_SANDBOX_LABELS, 0,                                                                    \
	  "UPDATE sandbox SET labels = ?2, updated_ms = ?3 WHERE id = ?1 AND state < 5"            \
	  " OR id = ?1 AND state = 7")                                                             \
	X(ST_SANDBOX_ENV, 0,                                                                       \
	  "UPDATE sandbox SET env = ?2, updated_ms = ?3 WHERE id = ?1 AND env = ?4")               \
	X(ST_SANDBOX_PUBLIC, 0,                                                                    \
	  "UPDATE sandbox SET is_public = ?2, updated_ms = ?3 WHERE id = ?1")                      \
	X(ST_SANDBOX_STOP_MIN, 0,                                                                  \
	  "UPDATE sandbox SET auto_stop_min = ?2, updated_ms = ?3 WHERE id = ?1")                  \
	X(ST_SANDBOX_PAUSE_MIN, 0,                                                                 \
	  "UPDATE sandbox SET auto_pause_min = ?2, updated_ms = ?3 WHERE id = ?1")                 \
	X(ST_SANDBOX_ARCHIVE_MIN, 0,                                                               \
	  "UPDATE sandbox SET auto_archive_min = ?2, updated_ms = ?3 WHERE id = ?1")               \
	X(ST_SANDBOX_DELETE_MIN, 0,                                                                \
	  "UPDATE sandbox SET auto_delete_min = ?2, updated_ms = ?3 WHERE id = ?1")                \
	X(ST_SANDBOX_TTL, 0,                                                                       \
	  "UPDATE sandbox SET auto_destroy_ms = ?2, updated_ms = ?3 WHERE id = ?1")                \
	X(ST_SANDBOX_TOUCH, 0,                                                                     \
	  "UPDATE sandbox SET last_activity_ms = ?2 WHERE id = ?1 AND last_activity_ms < ?2")      \
	X(ST_SANDBOX_CLAIM, 0,                                                                     \
	  "UPDATE sandbox SET org_id = ?2, name = coalesce(?3, id), user = ?4, region = ?5,"       \
	  " labels = ?6, env = ?7, is_public = ?8, network_allow_list = ?9,"                       \
	  " domain_allow_list = ?10, auto_stop_min = ?11, auto_pause_min = ?12,"                   \
	  " auto_archive_min = ?13, auto_delete_min = ?14, auto_destroy_ms = ?15,"                 \
	  " created_ms = ?16, updated_ms = ?16, last_activity_ms = ?16, warm = 0"                  \
	  " WHERE id = (SELECT id FROM sandbox WHERE warm = 1 AND snapshot = ?1 AND state = 2"     \
	  " LIMIT 1) RETURNING id")                                                                \
	X(ST_SANDBOX_PARKED, 0,                                                                    \
	  "SELECT count(*) FROM sandbox WHERE warm = 1 AND snapshot = ?1 AND state <= 2")          \
	X(ST_SANDBOX_ON_LAYER, 1,                                                                  \
	  "SELECT count(*) FROM sandbox WHERE layer = ?1 AND state < 5 OR layer = ?1 AND state = " \
	  "7")                                                                                     \
	X(ST_SANDBOX_BRIEF, 1, "SELECT id, state, warm FROM sandbox")                              \
	X(ST_SANDBOX_DUE_STOP, 0,                                                                  \
	  "SELECT id FROM sandbox WHERE state = 2 AND auto_stop_min > 0 AND warm = 0"              \
	  " AND last_activity_ms + auto_stop_min * 60000 <= ?1 LIMIT ?2")                          \
	X(ST_SANDBOX_DUE_DELETE, 0,                                                                \
	  "SELECT id FROM sandbox WHERE state = 4 AND auto_delete_min >= 0"                        \
	  " AND stopped_ms + auto_delete_min * 60000 <= ?1 LIMIT ?2")                              \
	X(ST_SANDBOX_DUE_TTL, 0,                                                                   \
	  "SELECT id FROM sandbox WHERE auto_destroy_ms > 0 AND auto_destroy_ms <= ?1"             \
	  " AND state <> 5 LIMIT ?2")                                                              \
	X(ST_SANDBOX_DROP, 0, "DELETE FROM sandbox WHERE id = ?1 AND state = 5")                   \
	X(ST_SIGN_GET, 0, "SELECT key FROM signing_key WHERE sandbox_id = ?1")                     \
	X(ST_SIGN_ADD, 0, "INSERT INTO signing_key VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")    \
	X(ST_SIGN_PUT, 0,                                                                          \
	  "INSERT INTO signing_key VALUES (?1, ?2, ?3)"                                            \
	  " ON CONFLICT (sandbox_id) DO UPDATE SET key = ?2, created_ms = ?3")                     \
	X(ST_LABEL_INSERT, 0, "INSERT INTO label (sandbox_id, key, value) VALUES (?1, ?2, ?3)")    \
	X(ST_LABEL_CLEAR, 0, "DELETE FROM label WHERE sandbox_id = ?1")                            \
	X(ST_LABEL_COUNT, 0,                                                                       \
	  "SELECT count(*) FROM (SELECT 1 FROM label WHERE key = ?1 AND value = ?2 LIMIT ?3)")     \
	X(ST_IDEM_GET, 0,                                                                          \
	  "SELECT digest, sandbox_id FROM idempotency WHERE org_id = ?1 AND key = ?2")             \
	X(ST_IDEM_INSERT, 0, "INSERT INTO idempotency VALUES (?1, ?2, ?3, ?4, ?5)")                \
	X(ST_IDEM_AGE, 0, "DELETE FROM idempotency WHERE created_ms < ?1")                         \
	X(ST_AUDIT_INSERT, 0,                                                                      \
	  "INSERT INTO audit (at_ms, org_id, user_id, key_name, key_prefix, key_suffix, action,"   \
	  " target_type, target_id, status, error, address, user_agent, source)"                   \
	  " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)")                 \
	X(ST_EVENT_INSERT, 0,                                                                      \
	  "INSERT INTO event (at_ms, sandbox_id, kind, text, mem_limit, mem_peak, victim)"         \
	  " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")                                                  \
	X(ST_EVENT_LIST, 0,                                                                        \
	  "SELECT id, at_ms, kind, state, text, mem_limit, mem_peak, victim FROM event"            \
	  " WHERE sandbox_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3")                               \
	X(ST_EVENT_COUNT, 0,                                                                       \
	  "SELECT count(*) FROM event WHERE sandbox_id = ?1 AND (?2 IS NULL OR kind = ?2)")        \
	X(ST_EVENT_AGE, 0,                                                                         \
	  "DELETE FROM event WHERE at_ms < ?1 AND id < (SELECT min(id) FROM event) + 2000")        \
	X(ST_EVENT_LAST, 0,                                                                        \
	  "SELECT text FROM event WHERE sandbox_id = ?1 AND kind = ?2 AND at_ms BETWEEN ?3 AND ?4" \
	  " ORDER BY id DESC LIMIT 1")                                                             \
	X(ST_PROCESS_PUT, 0,                                                                       \
	  "INSERT INTO process SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11"                \
	  " WHERE EXISTS (SELECT 1 FROM sandbox WHERE id = ?1 AND state = 2 AND starts = ?5)"      \
	  " ON CONFLICT (sandbox_id, kind, id) DO UPDATE SET task = excluded.task,"                \
	  " start = excluded.start, created_ms = excluded.created_ms, cwd = excluded.cwd,"         \
	  " env = excluded.env, cols = excluded.cols, rows = excluded.rows, lazy = excluded.lazy"  \
	  " WHERE process.start <> excluded.start OR process.task = ?12")                          \
	X(ST_PROCESS_GET, 0,                                                                       \
	  SQL_GET(PROCESS_COLUMNS, "process WHERE sandbox_id = ?1 AND kind = ?2 AND id = ?3"))     \
	X(ST_PROCESS_LIST, 0,                                                                      \
	  SQL_GET(PROCESS_COLUMNS,                                                                 \
		  "process WHERE sandbox_id = ?1 AND kind = ?2 AND start = ?3 ORDER BY id"))       \
	X(ST_PROCESS_DROP, 0,                                                                      \
	  "DELETE FROM process WHERE sandbox_id = ?1 AND kind = ?2 AND id = ?3 AND task = ?4")     \
	X(ST_PROCESS_AGE, 1,                                                                       \
	  "DELETE FROM process WHERE created_ms < ?1 AND (kind = 1 OR start <> (SELECT starts"     \
	  " FROM sandbox WHERE sandbox.id = sandbox_id))")                                         \
	X(ST_EXEC_KEY_GET, 0,                                                                      \
	  "SELECT digest, exec_id, created_ms, started FROM exec_key"                              \
	  " WHERE sandbox_id = ?1 AND key = ?2")                                                   \
	X(ST_EXEC_KEY_STARTED, 0,                                                                  \
	  "UPDATE exec_key SET started = 1 WHERE sandbox_id = ?1 AND key = ?2")                    \
	X(ST_EXEC_KEY_PUT, 0, "INSERT INTO exec_key VALUES (?1, ?2, ?3, ?4, 0, ?5)")               \
	X(ST_EXEC_KEY_AGE, 1, "DELETE FROM exec_key WHERE created_ms < ?1")                        \
	X(ST_LIST_COUNT, 0, "SELECT count(*) FROM sandbox WHERE org_id = ?1" LIST_FILTER_)         \
	LIST_ROWS_(X, ORG, LIST_BY_ORG_)                                                           \
	LIST_ROWS_(X, LABEL, LIST_BY_LABEL_)

enum stmt_id {
#define STMT_ENUM_(id, scan, sql) id,
	STATEMENTS(STMT_ENUM_)
#undef STMT_ENUM_
		ST_MAX
};

#endif
