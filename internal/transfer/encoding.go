package transfer

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// The encodings that are read. EncodingASCII is reported where no character told more.
const (
	EncodingAuto  = "auto"
	EncodingASCII = "ascii"
	EncodingUTF8  = "utf-8"
	EncodingGBK   = "gbk" // read as GB 18030, of which GBK is a part
	EncodingUTF16 = "utf-16"
)

// sampleBytes bounds how much of a file is looked at before it is read.
const sampleBytes = 64 << 10

// encoding turns the bytes of one record into text. Until the first byte beyond ASCII has been
// seen it is undecided, and that record decides: a file whose first Chinese label is in row
// 90,000 is read like any other. Separators, quotes and line ends are never part of a longer
// character in UTF-8 and GB 18030, so records are cut before they are decoded.
type encoding struct {
	name    string // EncodingASCII while undecided
	decoder transform.Transformer
}

// openEncoding looks at the first bytes of a file and gives the reader of its records' bytes and
// what decodes them. want is one of the Encoding constants, EncodingAuto or "" to detect. The
// error wraps ErrFile.
func openEncoding(src io.Reader, want string) (io.Reader, *encoding, error) {
	sample := make([]byte, sampleBytes)
	n, err := io.ReadFull(src, sample)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, nil, fmt.Errorf("read the file: %w", err)
	}
	sample = sample[:n]
	rest := io.MultiReader(bytes.NewReader(sample), src)
	if err := refuseOtherFiles(sample); err != nil {
		return nil, nil, err
	}
	e := &encoding{name: EncodingASCII}
	switch marked := utf16Mark(sample); {
	case want == EncodingUTF16 || marked && (want == "" || want == EncodingAuto):
		e.name = EncodingUTF16
		policy := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
		return transform.NewReader(rest, policy.NewDecoder()), e, nil
	case bytes.HasPrefix(sample, []byte("\xef\xbb\xbf")):
		if want == EncodingGBK {
			return nil, nil, fileError("the file begins with the mark of UTF-8, but is said to be %s; leave the encoding away", want)
		}
		e.name = EncodingUTF8
		if _, err := io.CopyN(io.Discard, rest, 3); err != nil {
			return nil, nil, fmt.Errorf("read the file: %w", err)
		}
		return rest, e, nil
	case want == EncodingUTF8:
		e.name = EncodingUTF8
	case want == EncodingGBK:
		e.useGBK()
	case want != "" && want != EncodingAuto:
		return nil, nil, fileError("the encoding %.20q is not known; give utf-8, gbk or utf-16", want)
	default:
		if part := wholeCharacters(sample); !isASCII(part) {
			e.decide(part)
		}
	}
	return rest, e, nil
}

// refuseOtherFiles says what to do with a file that is no text.
func refuseOtherFiles(sample []byte) error {
	switch {
	case len(sample) == 0:
		return fileError("the file is empty")
	case bytes.HasPrefix(sample, []byte("PK\x03\x04")), bytes.HasPrefix(sample, []byte("\xd0\xcf\x11\xe0")):
		return fileError("the file is a spreadsheet, not CSV; save it as \"CSV UTF-8\", with the ICCID column formatted as text")
	case bytes.HasPrefix(sample, []byte("\x1f\x8b")):
		return fileError("the file is compressed; unpack it first")
	case !utf16Mark(sample) && len(sample) > 3 && (sample[0] == 0 && sample[2] == 0 || sample[1] == 0 && sample[3] == 0):
		return fileError("the file seems to be UTF-16 without its mark; save it as UTF-8")
	}
	return nil
}

func utf16Mark(b []byte) bool {
	return bytes.HasPrefix(b, []byte("\xff\xfe")) || bytes.HasPrefix(b, []byte("\xfe\xff"))
}

// decide takes UTF-8 where most lines beyond ASCII are valid so, else GBK: a line of Chinese in GBK
// is as good as never valid UTF-8, and one damaged line must not turn the whole file into GBK.
func (e *encoding) decide(b []byte) {
	valid, invalid := 0, 0
	for line := range bytes.SplitSeq(b, []byte("\n")) {
		switch {
		case isASCII(line):
		case utf8.Valid(line):
			valid++
		default:
			invalid++
		}
	}
	if valid > invalid {
		e.name = EncodingUTF8
		return
	}
	e.useGBK()
}

func (e *encoding) useGBK() {
	e.name, e.decoder = EncodingGBK, simplifiedchinese.GB18030.NewDecoder()
}

// text decodes one record's bytes; ok is false where they are not text in this encoding, and the
// text then has U+FFFD in the places.
func (e *encoding) text(b []byte) (s string, ok bool) {
	if isASCII(b) {
		return string(b), true
	}
	if e.name == EncodingASCII {
		e.decide(b)
	}
	if e.decoder == nil {
		if !utf8.Valid(b) {
			return strings.ToValidUTF8(string(b), "\uFFFD"), false
		}
		return string(b), true
	}
	e.decoder.Reset()
	out, _, err := transform.Bytes(e.decoder, b)
	if err != nil {
		return strings.ToValidUTF8(string(b), "\uFFFD"), false
	}
	s = string(out)
	return s, !strings.ContainsRune(s, utf8.RuneError)
}

// wholeCharacters cuts a sample behind its last line end, so that no character is cut in two.
func wholeCharacters(sample []byte) []byte {
	if i := bytes.LastIndexAny(sample, "\r\n"); i > 0 && len(sample) == sampleBytes {
		return sample[:i]
	}
	if len(sample) == sampleBytes {
		for i := 0; i < utf8.UTFMax && !utf8.Valid(sample); i++ {
			if r, size := utf8.DecodeLastRune(sample); r != utf8.RuneError || size != 1 {
				break
			}
			sample = sample[:len(sample)-1]
		}
	}
	return sample
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
