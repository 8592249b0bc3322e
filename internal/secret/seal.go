package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrNotOpened says that sealed bytes are damaged, or were sealed for another table or row.
var ErrNotOpened = errors.New("sealed bytes are damaged or belong to another row")

// UnknownKeyError says that something was sealed with a key that is not in the keyring.
type UnknownKeyError struct{ KeyID string }

// Error says which key is missing and what to do.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("key %s is not in the keyring: put the key file (or %s) back that was used when this was sealed", e.KeyID, KeyEnv)
}

// The envelope, version 1, all of it bytes:
//
//	1  version
//	1  length of the key id, then the key id
//	60 data key under the key-encryption key: nonce 12, key 32, tag 16
//	n  text under the data key: nonce 12, text, tag 16
//
// Source: B10. AES-256-GCM as in NIST SP 800-38D with random 96-bit nonces: a data key seals one
// text, and a key-encryption key wraps far fewer than the 2^32 keys that a random nonce allows.
const (
	version      = 1
	gcmOverhead  = 12 + 16
	wrappedBytes = KeyBytes + gcmOverhead
)

// MaxPlainBytes is the longest text that Seal takes: a credential, a certificate, not a document.
const MaxPlainBytes = 1 << 20

// Seal encrypts plain for one row under a new data key, which the current key wraps. Only Open with
// the same table and row gives it back. The table names the kind of thing, the row its id (and its
// organisation, where there is one).
func (r *Keyring) Seal(table, row string, plain []byte) ([]byte, error) {
	if len(plain) > MaxPlainBytes {
		return nil, fmt.Errorf("seal %s %s: %d bytes, at most %d", table, row, len(plain), MaxPlainBytes)
	}
	var dataKey [KeyBytes]byte
	_, _ = rand.Read(dataKey[:]) // never fails (Go 1.24)
	head, err := wrap(r.current(), table, row, dataKey[:])
	if err != nil {
		return nil, fmt.Errorf("seal %s %s: %w", table, row, err)
	}
	aead, err := gcm(dataKey[:])
	if err != nil {
		return nil, fmt.Errorf("seal %s %s: %w", table, row, err)
	}
	return aead.Seal(head, nil, plain, textData(table, row)), nil
}

// Open decrypts what Seal made for the same table and row, with whichever key of the ring it was
// sealed. It returns ErrNotOpened, or an *UnknownKeyError, wrapped.
func (r *Keyring) Open(table, row string, sealed []byte) ([]byte, error) {
	e, err := r.unwrap(table, row, sealed)
	if err != nil {
		return nil, fmt.Errorf("open %s %s: %w", table, row, err)
	}
	aead, err := gcm(e.dataKey)
	if err != nil {
		return nil, fmt.Errorf("open %s %s: %w", table, row, err)
	}
	plain, err := aead.Open(nil, nil, e.text, textData(table, row))
	if err != nil {
		return nil, fmt.Errorf("open %s %s: %w", table, row, ErrNotOpened)
	}
	return plain, nil
}

// Rewrap puts the data key under the current key and leaves the text as it is, for a rotation;
// changed is false when it was under the current key already. It proves first that the text opens:
// a rotation must not carry damage along unseen.
func (r *Keyring) Rewrap(table, row string, sealed []byte) (rewrapped []byte, changed bool, err error) {
	if _, err := r.Open(table, row, sealed); err != nil {
		return nil, false, fmt.Errorf("rewrap: %w", err)
	}
	e, err := r.unwrap(table, row, sealed)
	if err != nil {
		return nil, false, fmt.Errorf("rewrap %s %s: %w", table, row, err)
	}
	if e.keyID == r.CurrentID() {
		return sealed, false, nil
	}
	head, err := wrap(r.current(), table, row, e.dataKey)
	if err != nil {
		return nil, false, fmt.Errorf("rewrap %s %s: %w", table, row, err)
	}
	return append(head, e.text...), true, nil
}

// SealedBy is the id of the key that sealed bytes need, without opening them.
func SealedBy(sealed []byte) (keyID string, err error) {
	e, err := split(sealed)
	return e.keyID, err
}

// envelope is sealed bytes taken apart. The slices are parts of them.
type envelope struct {
	keyID            string
	wrapped, dataKey []byte
	text             []byte
}

func split(sealed []byte) (envelope, error) {
	if len(sealed) < 2 {
		return envelope{}, ErrNotOpened
	}
	if sealed[0] != version {
		return envelope{}, fmt.Errorf("envelope version %d, this program knows %d: use a newer program", sealed[0], version)
	}
	n, rest := int(sealed[1]), sealed[2:]
	if n == 0 || len(rest) < n+wrappedBytes+gcmOverhead {
		return envelope{}, ErrNotOpened
	}
	return envelope{keyID: string(rest[:n]), wrapped: rest[n : n+wrappedBytes], text: rest[n+wrappedBytes:]}, nil
}

func (r *Keyring) unwrap(table, row string, sealed []byte) (envelope, error) {
	e, err := split(sealed)
	if err != nil {
		return envelope{}, err
	}
	k, ok := r.find(e.keyID)
	if !ok {
		return envelope{}, &UnknownKeyError{KeyID: printable(e.keyID)}
	}
	aead, err := gcm(k.bytes[:])
	if err != nil {
		return envelope{}, err
	}
	if e.dataKey, err = aead.Open(nil, nil, e.wrapped, keyData(table, row, k.id)); err != nil {
		return envelope{}, ErrNotOpened
	}
	return e, nil
}

// wrap makes the envelope's head: all that stands before the text.
func wrap(k key, table, row string, dataKey []byte) ([]byte, error) {
	aead, err := gcm(k.bytes[:])
	if err != nil {
		return nil, err
	}
	head := append([]byte{version, byte(len(k.id))}, k.id...)
	return aead.Seal(head, nil, dataKey, keyData(table, row, k.id)), nil
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// The associated data ties bytes to their place, so that nobody who can write to the database can
// move one row's credential to another. The text's leaves the key id out, so that Rewrap need not
// touch it; the data key that opens it is tied to the id.
func textData(table, row string) []byte { return fields("simwarden text", table, row) }
func keyData(table, row, keyID string) []byte {
	return fields("simwarden data key", table, row, keyID)
}

// fields joins texts with their lengths, so that ("ab", "c") and ("a", "bc") differ.
func fields(texts ...string) []byte {
	data := []byte{version}
	for _, text := range texts {
		data = binary.BigEndian.AppendUint64(data, uint64(len(text)))
		data = append(data, text...)
	}
	return data
}

// printable keeps bytes of unknown origin from reaching a terminal as they are.
func printable(id string) string {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return fmt.Sprintf("%q", id)
		}
	}
	return id
}
