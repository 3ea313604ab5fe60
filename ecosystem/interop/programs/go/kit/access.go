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

// Refused is a topic to which the user of the check acl may not write.
const Refused = "interop-refused"

// Over is a size in bytes. In the check quota, a record of this size uses up the quota for 1.5 s.
const Over = 115_000

// Secured are the checks that differ only in how the client connects and logs in.
var Secured = []string{"tls", "mtls", "sasl-plain", "scram-sha-256", "scram-sha-512", "oauthbearer"}

// Access is the address, the login and the certificates that a check uses.
type Access struct {
	Brokers   []string `json:"seed_brokers"`
	Mechanism string
	User      string
	Password  string
	Token     string
	CA        string
	Client    string
}

// AccessOf returns the access of the check with this name.
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

// TLS returns the TLS configuration of a client, or nil without TLS.
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

// Waited returns a text with the time that a client waited. It panics if the time is too short for a client that has used up
// its quota.
func Waited(began time.Time) string {
	waited := time.Since(began)
	Same(waited >= time.Second, true, fmt.Sprintf("waited %v:", waited))
	return fmt.Sprintf("waited %.1f s", waited.Seconds())
}
