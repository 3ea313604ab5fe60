package kit

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Refused is a topic that the user of the check acl may not write.
const Refused = "interop-refused"

// Over is so much that it uses up the quota of the check quota for 1.5 s.
const Over = 115_000

// Secured are the checks that only need another access.
var Secured = []string{"tls", "mtls", "sasl-plain", "scram-sha-256", "scram-sha-512", "oauthbearer"}

// Access is how a check reaches the broker.
type Access struct {
	Brokers   []string `json:"seed_brokers"`
	Mechanism string
	User      string
	Password  string
	Token     string
	CA        string
	Client    string
}

// AccessOf is that of the check with this name.
func AccessOf(name string) (access Access) {
	var known map[string]map[string]json.RawMessage
	Must(json.Unmarshal(Get(os.ReadFile(os.Getenv("INTEROP_ACCESS"))), &known))
	for check, forms := range known {
		if strings.HasSuffix(name, "-"+check) {
			Must(json.Unmarshal(forms["franz-go"], &access))
		}
	}
	return access
}

// TLS is the configuration of a client; nil without TLS.
func (access Access) TLS() *tls.Config {
	if access.CA == "" {
		return nil
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	Same(config.RootCAs.AppendCertsFromPEM(Get(os.ReadFile(access.CA))), true, "the authority is read:")
	if access.Client != "" {
		config.Certificates = []tls.Certificate{Get(tls.LoadX509KeyPair(access.Client, access.Client))}
	}
	return config
}

// Waited says how long it took; it panics if that is not as long as a used up quota takes.
func Waited(began time.Time) string {
	waited := time.Since(began)
	Same(waited >= time.Second, true, fmt.Sprintf("waited %v:", waited))
	return fmt.Sprintf("waited %.1f s", waited.Seconds())
}
