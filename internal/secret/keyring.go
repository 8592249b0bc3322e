package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// KeyBytes is the length of a key-encryption key: AES-256.
const KeyBytes = 32

// maxKeys bounds a keyring; a rotation adds one.
const maxKeys = 64

// key is one key-encryption key. Its id is a fingerprint, so that the same key has the same id
// wherever it comes from, and the id tells nothing about it.
type key struct {
	id    string
	bytes [KeyBytes]byte
}

func newKey(bytes [KeyBytes]byte) key {
	sum := sha256.Sum256(append([]byte("simwarden key id\x00"), bytes[:]...))
	return key{id: hex.EncodeToString(sum[:8]), bytes: bytes}
}

func randomKey() key {
	var bytes [KeyBytes]byte
	_, _ = rand.Read(bytes[:]) // never fails: crypto/rand ends the program instead (Go 1.24)
	return newKey(bytes)
}

// text is the key as files and the environment carry it: standard base64.
func (k key) text() string { return base64.StdEncoding.EncodeToString(k.bytes[:]) }

// Keyring holds the key-encryption keys, which live outside the database (B10). It seals with the
// current one and opens with any. It does not change after it is made, so any number of
// goroutines may use it. It prints as the ids of its keys.
type Keyring struct {
	keys []key // the last is the current one
}

// parseKeys reads keys in base64, one a line or with commas between; # begins a comment line. The
// last is the current one. The error never quotes what it could not read.
func parseKeys(text string) (*Keyring, error) {
	var ring Keyring
	n := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for part := range strings.SplitSeq(line, ",") {
			part = strings.TrimSpace(part)
			if part == "" {
				continue
			}
			n++
			raw, err := base64.StdEncoding.DecodeString(part)
			if err != nil || len(raw) != KeyBytes {
				return nil, fmt.Errorf("key %d is not the base64 of %d bytes: make one with: openssl rand -base64 %d",
					n, KeyBytes, KeyBytes)
			}
			if n > maxKeys {
				return nil, fmt.Errorf("more than %d keys: rewrap with the current one and remove the old", maxKeys)
			}
			ring.add(newKey([KeyBytes]byte(raw)))
		}
	}
	if len(ring.keys) == 0 {
		return nil, errors.New("no key in it: put the saved key back, or make one with: openssl rand -base64 32")
	}
	return &ring, nil
}

// add makes k the current key; one that is there already moves to the end.
func (r *Keyring) add(k key) {
	r.keys = slices.DeleteFunc(r.keys, func(old key) bool { return old.id == k.id })
	r.keys = append(r.keys, k)
}

func (r *Keyring) current() key { return r.keys[len(r.keys)-1] }

func (r *Keyring) find(id string) (key, bool) {
	i := slices.IndexFunc(r.keys, func(k key) bool { return k.id == id })
	if i < 0 {
		return key{}, false
	}
	return r.keys[i], true
}

// CurrentID is the id of the key that Seal uses.
func (r *Keyring) CurrentID() string { return r.current().id }

// IDs are the ids of all keys, oldest first, the current one last.
func (r *Keyring) IDs() []string {
	ids := make([]string, len(r.keys))
	for i, k := range r.keys {
		ids[i] = k.id
	}
	return ids
}

// Format writes the ids for every verb, so that no print shows a key.
func (r *Keyring) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "keyring[%s]", strings.Join(r.IDs(), " "))
}
