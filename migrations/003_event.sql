-- The history of a sandbox: its states with their reasons, beside memory exhaustion. Written by the
-- change itself, so that no edge is without its line and none has two; gone with the sandbox.

ALTER TABLE event ADD COLUMN state INTEGER NOT NULL DEFAULT -1;
ALTER TABLE event ADD COLUMN mem_limit INTEGER NOT NULL DEFAULT 0;
ALTER TABLE event ADD COLUMN mem_peak INTEGER NOT NULL DEFAULT 0;
ALTER TABLE event ADD COLUMN victim TEXT NOT NULL DEFAULT '';

CREATE TRIGGER sandbox_created AFTER INSERT ON sandbox
BEGIN
	INSERT INTO event (at_ms, sandbox_id, kind, text, state)
	VALUES (NEW.created_ms, NEW.id, 'state', '', NEW.state);
END;

CREATE TRIGGER sandbox_moved AFTER UPDATE OF state ON sandbox WHEN NEW.state <> OLD.state
BEGIN
	INSERT INTO event (at_ms, sandbox_id, kind, text, state)
	VALUES (NEW.updated_ms, NEW.id, 'state', NEW.error_reason, NEW.state);
END;

CREATE TRIGGER sandbox_gone AFTER DELETE ON sandbox
BEGIN
	DELETE FROM event WHERE sandbox_id = OLD.id;
END;

-- A program inside that runs out of memory again and again must not fill the disk.
CREATE TRIGGER event_bound AFTER INSERT ON event
BEGIN
	DELETE FROM event WHERE sandbox_id = NEW.sandbox_id AND id <=
		(SELECT id FROM event WHERE sandbox_id = NEW.sandbox_id
		ORDER BY id DESC LIMIT 1 OFFSET 500);
END;
