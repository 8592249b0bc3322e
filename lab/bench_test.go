package lab_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden/lab"
	"github.com/simwarden/simwarden/lab/soracom"
	"github.com/simwarden/simwarden/lab/supersim"
)

// nobody takes an answer and counts its bytes.
type nobody struct {
	header http.Header
	bytes  int
}

func (n *nobody) Header() http.Header         { return n.header }
func (n *nobody) WriteHeader(int)             {}
func (n *nobody) Write(b []byte) (int, error) { n.bytes += len(b); return len(b), nil }

// BenchmarkPage tells what a list page costs the lab, without HTTP itself: the bench's ceiling is
// only worth something while this is small beside the client's work. Of SIMs, see ns/sim.
func BenchmarkPage(b *testing.B) {
	for _, size := range []int{100, 1000} {
		for _, dialect := range []string{"soracom", "supersim", "supersim-usage"} {
			b.Run(dialect+"/"+strconv.Itoa(size), func(b *testing.B) {
				w := lab.New(lab.Config{Seed: 1, Log: io.Discard})
				spec := lab.AccountSpec{Name: "bench", Dialect: dialect}
				if dialect == "supersim-usage" {
					spec.Dialect = "supersim"
				}
				a, err := w.AddAccount(spec)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := a.Populate(lab.Population{Count: 100_000, ActiveShare: 0.9, Age: 100 * time.Hour}); err != nil {
					b.Fatal(err)
				}
				handler := w.Handler()
				path := a.Path() + "/sims?limit=" + strconv.Itoa(size) + "&last_evaluated_key=k-7ps"
				if spec.Dialect == "supersim" {
					path = a.Path() + "/v1/Sims?PageToken=PT7ps&PageSize=" + strconv.Itoa(size)
				}
				if dialect == "supersim-usage" {
					path = a.Path() + "/v1/UsageRecords?Group=sim&Granularity=all&PageToken=PT7ps&PageSize=" + strconv.Itoa(size)
				}
				request := httptest.NewRequest(http.MethodGet, path, nil)
				if spec.Dialect == "supersim" {
					request.SetBasicAuth(a.Credential(supersim.CredentialAccountSID), a.Credential(supersim.CredentialAuthToken))
				} else {
					login(b, handler, a, request)
				}
				out := &nobody{header: http.Header{}}
				handler.ServeHTTP(out, request)
				if out.bytes < 100*size {
					b.Fatalf("the page has %d bytes", out.bytes)
				}
				b.ReportAllocs()
				for b.Loop() {
					handler.ServeHTTP(&nobody{header: http.Header{}}, request)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/sim")
			})
		}
	}
}

func login(b *testing.B, handler http.Handler, a *lab.Account, request *http.Request) {
	body := `{"authKeyId":"` + a.Credential(soracom.CredentialKeyID) + `","authKey":"` + a.Credential(soracom.CredentialKey) + `"}`
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, a.Path()+"/auth", strings.NewReader(body)))
	token := answer{t: b, header: recorder.Header(), body: recorder.Body.Bytes()}
	request.Header.Set("X-Soracom-API-Key", token.text("apiKey"))
	request.Header.Set("X-Soracom-Token", token.text("token"))
}

// BenchmarkRead tells what a single read costs the lab, its log line included.
func BenchmarkRead(b *testing.B) {
	w := lab.New(lab.Config{Seed: 1, Log: io.Discard})
	a, err := w.AddAccount(lab.AccountSpec{Name: "bench", Dialect: "soracom"})
	if err != nil {
		b.Fatal(err)
	}
	iccids, err := a.Populate(lab.Population{Count: 1000, ActiveShare: 1})
	if err != nil {
		b.Fatal(err)
	}
	handler := w.Handler()
	request := httptest.NewRequest(http.MethodGet, a.Path()+"/sims/"+iccids[500], nil)
	login(b, handler, a, request)
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(&nobody{header: http.Header{}}, request)
	}
}
