{{- define "myna.labels" -}}
app.kubernetes.io/name: myna
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The pod of a server or of the migration, without its restart policy. `command` is what myna does. */}}
{{- define "myna.pod" -}}
{{- $root := .root -}}
automountServiceAccountToken: false
enableServiceLinks: false  # a Service named myna would set MYNA_PORT
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
containers:
  - name: myna
    image: {{ required "image: build one from deploy/Containerfile" $root.Values.image }}
    args: [{{ .command }}]
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    env:
      - {name: MYNA_MIGRATE, value: "off"}
      - {name: MYNA_METRICS_PORT, value: "9090"}
      - {name: MYNA_DRAIN_S, value: {{ $root.Values.drainSeconds | quote }}}
      - {name: MYNA_SHUTDOWN_GRACE_S, value: {{ $root.Values.graceSeconds | quote }}}
      {{- range $root.Values.secretKeys }}
      - {name: MYNA_{{ upper . }}_FILE, value: /run/secrets/myna/{{ . }}}
      {{- end }}
      {{- range $name, $value := $root.Values.config }}
      - {name: {{ $name }}, value: {{ $value | quote }}}
      {{- end }}
    volumeMounts:
      - {name: secret, mountPath: /run/secrets/myna, readOnly: true}
      - {name: tmp, mountPath: /tmp}
      - {name: data, mountPath: /var/lib/myna}
    {{- with .more }}
    {{- . | nindent 4 }}
    {{- end }}
volumes:
  - name: secret
    secret: {secretName: {{ $root.Values.secret }}, defaultMode: 0440}
  - {name: tmp, emptyDir: {}}
  - name: data
    {{- if or (eq .command "migrate") (and $root.Values.config.MYNA_STORAGE (not $root.Values.claim)) }}
    emptyDir: {}
    {{- else }}
    persistentVolumeClaim: {claimName: {{ required "claim: the storage of audio, samples and models, or config.MYNA_STORAGE for a bucket" $root.Values.claim }}}
    {{- end }}
{{- end }}
