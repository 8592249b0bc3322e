package pgembed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// DatabaseName and databaseUser are the one database and its owner. The user is also the
	// cluster's superuser: who may open the socket owns the files anyway.
	DatabaseName = "simwarden"
	databaseUser = "simwarden"

	settingsFile = "postgresql.conf"
	// LocalSettingsFile is read after ours, so that an operator's settings win. It is never written.
	LocalSettingsFile = "postgresql.local.conf"
	hbaFile           = "pg_hba.conf"
	identFile         = "pg_ident.conf"
)

// writeSettings writes the three files that the server reads, into the data directory and not into
// the cluster: that belongs to another user, and root does not write there.
func writeSettings(l layout, a account, fast, lz4 bool) error {
	self := userName(os.Geteuid())
	ident := "# Written at each start. System users who may connect as " + databaseUser + ".\n"
	seen := map[string]bool{}
	for _, name := range []string{"root", self, a.name} {
		if !seen[name] {
			ident += fmt.Sprintf("simwarden %q %s\n", name, databaseUser)
		}
		seen[name] = true
	}
	for name, text := range map[string]string{
		settingsFile: settings(memoryBytes(), fast, lz4),
		hbaFile:      "# Written at each start: the socket alone, and only users of the map.\nlocal all " + databaseUser + " peer map=simwarden\n",
		identFile:    ident,
	} {
		if err := replaceFile(l.file(name), text); err != nil {
			return err
		}
	}
	return nil
}

// settings is the text of the settings file. memory is what this machine has, in bytes, 0 for unknown.
func settings(memory int64, fast, lz4 bool) string {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	line("# Written at each start: put your own settings into %s beside this file.", LocalSettingsFile)
	line("max_wal_size = 4GB")
	line("checkpoint_timeout = 15min")
	if lz4 {
		line("wal_compression = lz4")
	}
	line("shared_buffers = %dMB", sharedBuffers(memory, fast)>>20)
	line("timezone = 'UTC'")
	line("log_timezone = 'UTC'")
	line("datestyle = 'iso, ymd'")
	line("lc_messages = 'C'")
	line("default_text_search_config = 'pg_catalog.simple'")
	line("jit = off")
	// Statements, parameters and the DETAIL of errors carry personal data (V20).
	line("log_line_prefix = '%%m [%%p] '")
	line("log_min_error_statement = panic")
	line("log_error_verbosity = terse")
	line("log_parameter_max_length = 0")
	line("log_parameter_max_length_on_error = 0")
	if fast { // survives the death of its processes, as tests of crashes need, but not the machine's
		line("fsync = off")
		line("full_page_writes = off")
		line("max_connections = 200")
	}
	line("include_if_exists = '%s'", LocalSettingsFile)
	return s.String()
}

// sharedBuffers is an eighth of the memory, since we and the page cache live beside it, within
// 128 MB and 2 GB. Tests take 64 MB.
func sharedBuffers(memory int64, fast bool) int64 {
	if fast {
		return 64 << 20
	}
	return min(max(memory/8, 128<<20), 2<<30)
}

// enforced are the settings that no file may change, as arguments of the server.
func enforced(l layout) []string {
	quoted := `"` + strings.ReplaceAll(l.run, `"`, `""`) + `"`
	return []string{
		"-c", "config_file=" + l.file(settingsFile),
		"-c", "hba_file=" + l.file(hbaFile),
		"-c", "ident_file=" + l.file(identFile),
		"-c", "listen_addresses=",
		"-c", "unix_socket_directories=" + quoted,
		"-c", "unix_socket_permissions=0700",
		"-c", fmt.Sprintf("port=%d", socketPort),
		"-c", "logging_collector=off",
		"-c", "log_destination=stderr",
	}
}

// replaceFile writes beside the file and renames: a reader sees the old text or the new. All may
// read it, the server's user among them; it holds nothing secret.
func replaceFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, plainDiskFull(err, path))
	}
	defer os.Remove(f.Name()) // renamed when all went well
	_, err = f.WriteString(text)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := ownLike(f, filepath.Dir(path)); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, plainDiskFull(err, path))
	}
	return nil
}
