package secret_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden/internal/secret"
)

func keyring(t *testing.T) (ring *secret.Keyring, path string) {
	t.Helper()
	t.Setenv(secret.KeyEnv, "")
	path = filepath.Join(t.TempDir(), "key")
	ring, err := secret.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	return ring, path
}

func TestSealOpens(t *testing.T) {
	ring, _ := keyring(t)
	rapid.Check(t, func(t *rapid.T) {
		table, row := rapid.String().Draw(t, "table"), rapid.String().Draw(t, "row")
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		sealed, err := ring.Seal(table, row, plain)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ring.Open(table, row, sealed)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("opened %q, %v, want %q", got, err, plain)
		}
		other := rapid.String().Filter(func(s string) bool { return s != row }).Draw(t, "other row")
		if _, err := ring.Open(table, other, sealed); !errors.Is(err, secret.ErrNotOpened) {
			t.Fatalf("B10: another row opened it: %v", err)
		}
		// Every byte counts: no change of one goes unseen.
		i := rapid.IntRange(0, len(sealed)-1).Draw(t, "byte")
		bad := bytes.Clone(sealed)
		bad[i] ^= rapid.ByteRange(1, 255).Draw(t, "change")
		if _, err := ring.Open(table, row, bad); err == nil {
			t.Fatalf("a change of byte %d of %d was not found", i, len(sealed))
		}
		if _, err := ring.Open(table, row, sealed[:i]); err == nil {
			t.Fatalf("it opened with %d of its %d bytes", i, len(sealed))
		}
	})
}

func TestSealIsTiedToTableAndRow(t *testing.T) {
	ring, _ := keyring(t)
	sealed, err := ring.Seal("account", "12", []byte(canary))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte(canary)) {
		t.Error("F62: the text stands in the sealed bytes")
	}
	for _, place := range [][2]string{{"account", "1"}, {"account", "2"}, {"account1", "2"}, {"webhook", "12"}, {"", "account12"}} {
		if _, err := ring.Open(place[0], place[1], sealed); !errors.Is(err, secret.ErrNotOpened) {
			t.Errorf("B10: %v opened it: %v", place, err)
		}
	}
	again, err := ring.Seal("account", "12", []byte(canary))
	if err != nil || bytes.Equal(sealed, again) {
		t.Errorf("sealing twice gave the same bytes (%v)", err)
	}
	if _, err := ring.Seal("account", "12", make([]byte, secret.MaxPlainBytes+1)); err == nil {
		t.Error("a text without bound was sealed")
	}
}

func TestRotation(t *testing.T) {
	old, path := keyring(t)
	sealed, err := old.Seal("account", "1", []byte(canary))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := secret.Rotate(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(ring.IDs()) != 2 || ring.IDs()[0] != old.CurrentID() || ring.CurrentID() == old.CurrentID() {
		t.Fatalf("after a rotation the keys are %v, before %v", ring.IDs(), old.IDs())
	}
	rewrapped, changed, err := ring.Rewrap("account", "1", sealed)
	if err != nil || !changed {
		t.Fatalf("rewrap: changed %v, %v", changed, err)
	}
	if id, err := secret.SealedBy(rewrapped); err != nil || id != ring.CurrentID() {
		t.Errorf("rewrapped under %s, %v, want the current key", id, err)
	}
	if got, err := ring.Open("account", "1", rewrapped); err != nil || string(got) != canary {
		t.Errorf("opened %q, %v", got, err)
	}
	if got, err := ring.Open("account", "1", sealed); err != nil || string(got) != canary {
		t.Errorf("the old key no longer opens: %q, %v", got, err)
	}
	if same, changed, err := ring.Rewrap("account", "1", rewrapped); err != nil || changed || !bytes.Equal(same, rewrapped) {
		t.Errorf("a second rewrap: changed %v, %v", changed, err)
	}
	if _, _, err := ring.Rewrap("account", "2", sealed); !errors.Is(err, secret.ErrNotOpened) {
		t.Errorf("rewrap carried on what does not open: %v", err)
	}
	var unknown *secret.UnknownKeyError
	if _, err := old.Open("account", "1", rewrapped); !errors.As(err, &unknown) || unknown.KeyID != ring.CurrentID() ||
		!strings.Contains(err.Error(), "put the key file") {
		t.Errorf("without the key: %v", err)
	}
	reloaded, err := secret.Load(path)
	if err != nil || fmt.Sprint(reloaded) != fmt.Sprint(ring) {
		t.Errorf("the file holds %v, %v, want %v", reloaded, err, ring)
	}
}

func TestRotationsAtOnceLoseNoKey(t *testing.T) {
	_, path := keyring(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := secret.Rotate(path); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	ring, err := secret.Load(path)
	if err != nil || len(ring.IDs()) != 9 {
		t.Errorf("8 rotations at once left %v, %v, want 9 keys", ring, err)
	}
}

func TestKeyFileIsMadeOnce(t *testing.T) {
	t.Setenv(secret.KeyEnv, "")
	path := filepath.Join(t.TempDir(), "key")
	if _, err := secret.Load(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a missing file is %v", err)
	}
	ids := make(chan string, 16)
	var group sync.WaitGroup
	for range cap(ids) {
		group.Go(func() {
			ring, err := secret.LoadOrCreate(path)
			if err != nil {
				t.Error(err)
				return
			}
			ids <- ring.CurrentID()
		})
	}
	group.Wait()
	close(ids)
	first := <-ids
	for id := range ids {
		if id != first {
			t.Fatalf("F4: two starts at once made the keys %s and %s", first, id)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file is %v, %v, want mode 0600 (B10)", info.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestBadKeyFiles(t *testing.T) {
	good := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, secret.KeyBytes))
	for _, row := range []struct {
		sentence, text string
		mode           fs.FileMode
		want           string
	}{
		{"others may read it", good, 0o644, "chmod 600"},
		{"the group may read it", good, 0o640, "chmod 600"},
		{"others may write it", good, 0o602, "chmod 600"},
		{"it is empty", "", 0o600, "no key in it"},
		{"it is no base64", "hunter2hunter2", 0o600, "openssl rand"},
		{"the key is short", "aGFsZg==", 0o600, "base64 of 32 bytes"},
		{"it is something large", strings.Repeat("#\n", 64<<10), 0o600, "not a key file"},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			t.Setenv(secret.KeyEnv, "")
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, []byte(row.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, row.mode); err != nil {
				t.Fatal(err)
			}
			for name, load := range map[string]func(string) (*secret.Keyring, error){
				"Load": secret.Load, "LoadOrCreate": secret.LoadOrCreate, "Rotate": secret.Rotate,
			} {
				_, err := load(path)
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("%s: %v, want one that says %q", name, err, row.want)
				}
				if err != nil && row.text != "" && strings.Contains(err.Error(), row.text) {
					t.Errorf("V20: %s quotes the file: %v", name, err)
				}
			}
			if left, err := os.ReadFile(path); err != nil || string(left) != row.text {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
	if _, err := secret.Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	nowhere := filepath.Join(t.TempDir(), "missing", "key")
	if _, err := secret.LoadOrCreate(nowhere); err == nil {
		t.Error("a key was made in a folder that is not there")
	}
	if _, err := secret.Rotate(nowhere); err == nil {
		t.Error("a key was rotated in a folder that is not there")
	}
}

func TestKeyFromTheEnvironment(t *testing.T) {
	one := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, secret.KeyBytes))
	two := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{2}, secret.KeyBytes))
	path := filepath.Join(t.TempDir(), "key")
	t.Setenv(secret.KeyEnv, one)
	before, err := secret.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file was made although the environment holds the key")
	}
	if _, err := secret.Rotate(path); err == nil || !strings.Contains(err.Error(), secret.KeyEnv) {
		t.Errorf("rotating a key of the environment: %v", err)
	}
	sealed, err := before.Seal("account", "1", []byte(canary))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(secret.KeyEnv, one+", "+two)
	after, err := secret.Load(path)
	if err != nil || after.CurrentID() == before.CurrentID() {
		t.Fatalf("the last key is not the current one: %v, %v", after, err)
	}
	if got, err := after.Open("account", "1", sealed); err != nil || string(got) != canary {
		t.Errorf("the first key no longer opens: %q, %v", got, err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		if text := fmt.Sprintf(verb, after); !strings.HasPrefix(text, "keyring[") || strings.Contains(text, one) {
			t.Errorf("V20: %s prints %s", verb, text)
		}
	}
	t.Setenv(secret.KeyEnv, "secret-but-wrong")
	if _, err := secret.Load(path); err == nil || strings.Contains(err.Error(), "secret-but-wrong") {
		t.Errorf("a wrong key in the environment: %v", err)
	}
	many := strings.Repeat(one+",", 70)
	t.Setenv(secret.KeyEnv, many)
	if _, err := secret.Load(path); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("keys without bound: %v", err)
	}
}

func TestDamagedEnvelopes(t *testing.T) {
	ring, _ := keyring(t)
	for sentence, sealed := range map[string][]byte{
		"nothing": nil, "a version alone": {1}, "no key id": append([]byte{1, 0}, make([]byte, 200)...),
		"an id longer than the rest": {1, 200, 1, 2, 3},
	} {
		if _, err := ring.Open("a", "1", sealed); !errors.Is(err, secret.ErrNotOpened) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
	if _, err := secret.SealedBy(append([]byte{2, 1, 'k'}, make([]byte, 200)...)); err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("an envelope of a later version: %v", err)
	}
	strange := append([]byte{1, 2, 'k', 0x1b}, make([]byte, 200)...)
	if _, err := ring.Open("a", "1", strange); err == nil || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("B13: a control character of the envelope stands in the error: %q", err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Setenv(secret.KeyEnv, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, secret.KeyBytes)))
	ring, err := secret.Load("")
	if err != nil {
		f.Fatal(err)
	}
	sealed, err := ring.Seal("a", "1", []byte("x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Fuzz(func(t *testing.T, data []byte) {
		if plain, err := ring.Open("a", "1", data); err == nil && string(plain) != "x" {
			t.Errorf("opened what was never sealed: %x", data)
		}
	})
}
