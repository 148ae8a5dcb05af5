-- Memory of a sandbox in MiB: half a GiB is a size too.
ALTER TABLE sandbox RENAME COLUMN memory_gib TO memory_mib;
UPDATE sandbox SET memory_mib = memory_mib * 1024;
