	.file	"s.c"
	.text
.Ltext0:
	.file 0 "/src" "s.c"
	.p2align 4
	.type	inner.constprop.0, @function
inner.constprop.0:
.LFB9:
	.file 1 "s.c"
	.loc 1 4 38
	.cfi_startproc
	subq	$8, %rsp	# 18	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 16
	.loc 1 4 60
	movl	$3, %edi	# 5	[c=4 l=5]  *movsi_internal/0
	call	ext@PLT	# 6	[c=10 l=5]  *call_value
	.loc 1 4 72
	addq	$8, %rsp	# 21	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 8
	.loc 1 4 67
	addl	$1, %eax	# 8	[c=4 l=3]  *addsi_1/0
	.loc 1 4 72
	ret		# 22	[c=0 l=1]  simple_return_internal
	.cfi_endproc
.LFE9:
	.size	inner.constprop.0, .-inner.constprop.0
	.p2align 4
	.globl	tail
	.type	tail, @function
tail:
.LFB2:
	.loc 1 5 17
	.cfi_startproc
	.loc 1 5 26
	addl	$1, %edi	# 6	[c=4 l=3]  *addsi_1/0
	jmp	ext@PLT	# 8	[c=10 l=5]  *sibcall_value
	.cfi_endproc
.LFE2:
	.size	tail, .-tail
	.p2align 4
	.globl	indirect
	.type	indirect, @function
indirect:
.LFB3:
	.loc 1 6 21
	.cfi_startproc
	.loc 1 6 35
	movl	%edi, %edx	# 23	[c=4 l=2]  *movsi_internal/0
	.loc 1 6 30
	leaq	table(%rip), %rax	# 20	[c=1 l=7]  *movdi_internal/4
	.loc 1 6 35
	andl	$3, %edx	# 19	[c=5 l=3]  *andsi_1_zext
	.loc 1 6 30
	jmp	*(%rax,%rdx,8)	# 28	[c=19 l=3]  *sibcall_value_memory
	.cfi_endproc
.LFE3:
	.size	indirect, .-indirect
	.section	.text.unlikely,"ax",@progbits
.LCOLDB0:
	.text
.LHOTB0:
	.p2align 4
	.section	.text.unlikely
.Ltext_cold0:
	.text
	.globl	choose
	.type	choose, @function
choose:
.LFB4:
	.loc 1 7 19
	.cfi_startproc
	subq	$8, %rsp	# 83	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 16
	.loc 1 8 5
	cmpl	$5, %edi	# 9	[c=4 l=3]  *cmpsi_1/0
	ja	.L7	# 10	[c=13 l=6]  *jcc
	leaq	.L9(%rip), %rdx	# 12	[c=1 l=7]  *movdi_internal/4
	movl	%edi, %edi	# 11	[c=1 l=2]  *zero_extendsidi2/3
	movslq	(%rdx,%rdi,4), %rax	# 14	[c=14 l=4]  *extendsidi2_rex64/1
	addq	%rdx, %rax	# 16	[c=4 l=3]  *adddi_1/0
	jmp	*%rax	# 17	[c=4 l=2]  *tablejump_1
	.section	.rodata
	.align 4
	.align 4
.L9:
	.long	.L14-.L9
	.long	.L13-.L9
	.long	.L15-.L9
	.long	.L11-.L9
	.long	.L10-.L9
	.long	.L8-.L9
	.text
	.p2align 4,,10
	.p2align 3
.L10:
	.loc 1 13 24
	movl	$7, %edi	# 45	[c=4 l=5]  *movsi_internal/0
	call	ext@PLT	# 46	[c=10 l=5]  *call_value
	.loc 1 17 1
	addq	$8, %rsp	# 86	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_remember_state
	.cfi_def_cfa_offset 8
	.loc 1 13 22
	addl	$1, %eax	# 48	[c=4 l=3]  *addsi_1/0
	.loc 1 17 1
	ret		# 87	[c=0 l=1]  simple_return_internal
	.p2align 4,,10
	.p2align 3
.L8:
	.cfi_restore_state
	addq	$8, %rsp	# 91	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_remember_state
	.cfi_def_cfa_offset 8
	.loc 1 14 20
	jmp	inner.constprop.0	# 53	[c=10 l=5]  *sibcall_value
	.p2align 4,,10
	.p2align 3
.L14:
	.cfi_restore_state
	.loc 1 9 20
	movl	$3, %edi	# 23	[c=4 l=5]  *movsi_internal/0
	.loc 1 17 1
	addq	$8, %rsp	# 93	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_remember_state
	.cfi_def_cfa_offset 8
	.loc 1 9 20
	jmp	ext@PLT	# 24	[c=10 l=5]  *sibcall_value
	.p2align 4,,10
	.p2align 3
.L13:
	.cfi_restore_state
	.loc 1 10 20
	movl	$9, %edi	# 29	[c=4 l=5]  *movsi_internal/0
	call	ext@PLT	# 30	[c=10 l=5]  *call_value
	.loc 1 17 1
	addq	$8, %rsp	# 98	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_remember_state
	.cfi_def_cfa_offset 8
	.loc 1 10 27
	addl	$1, %eax	# 32	[c=4 l=3]  *addsi_1/0
	.loc 1 17 1
	ret		# 99	[c=0 l=1]  simple_return_internal
	.p2align 4,,10
	.p2align 3
.L15:
	.cfi_restore_state
	.loc 1 8 5
	movl	$88, %eax	# 4	[c=4 l=5]  *movsi_internal/0
	.loc 1 17 1
	addq	$8, %rsp	# 106	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_remember_state
	.cfi_def_cfa_offset 8
	ret		# 107	[c=0 l=1]  simple_return_internal
	.p2align 4,,10
	.p2align 3
.L11:
	.cfi_restore_state
.LBB4:
.LBB5:
	.loc 1 3 41
	movl	$3, %edi	# 37	[c=4 l=5]  *movsi_internal/0
	call	ext@PLT	# 38	[c=10 l=5]  *call_value
.LBE5:
.LBE4:
	.loc 1 17 1
	addq	$8, %rsp	# 114	[c=4 l=4]  pro_epilogue_adjust_stack_add_di/0
	.cfi_def_cfa_offset 8
.LBB7:
.LBB6:
	.loc 1 3 48
	addl	%eax, %eax	# 40	[c=4 l=2]  *ashlsi3_1/0
.LBE6:
.LBE7:
	.loc 1 17 1
	ret		# 115	[c=0 l=1]  simple_return_internal
	.cfi_endproc
	.section	.text.unlikely
	.cfi_startproc
	.type	choose.cold, @function
choose.cold:
.LFSB4:
.L7:
	.cfi_def_cfa_offset 16
	.loc 1 15 14
	call	abort@PLT	# 58	[c=0 l=5]  *call
	.cfi_endproc
.LFE4:
	.text
	.size	choose, .-choose
	.section	.text.unlikely
	.size	choose.cold, .-choose.cold
.LCOLDE0:
	.text
.LHOTE0:
	.p2align 4
	.globl	go
	.type	go, @function
go:
.LFB5:
	.loc 1 18 26
	.cfi_startproc
	pushq	%r12	# 59	[c=4 l=2]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 16
	.cfi_offset 12, -16
	.loc 1 21 13
	leaq	to.0(%rip), %r12	# 7	[c=1 l=7]  *movdi_internal/4
	.loc 1 18 26
	pushq	%rbp	# 60	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 24
	.cfi_offset 6, -24
	.loc 1 20 9
	xorl	%ebp, %ebp	# 97	[c=4 l=2]  *movdi_xor
	.loc 1 18 26
	pushq	%rbx	# 61	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 32
	.cfi_offset 3, -32
	.loc 1 21 13
	movzbl	(%rdi), %eax	# 9	[c=9 l=3]  zero_extendqidi2/0
	leaq	2(%rdi), %rbx	# 58	[c=4 l=4]  *leadi
	movq	(%r12,%rax,8), %rax	# 10	[c=10 l=4]  *movdi_internal/3
	jmp	*%rax	# 93	[c=4 l=2]  *indirect_jump
	.p2align 4,,10
	.p2align 3
.L22:
	.loc 1 27 1
	movl	%ebp, %eax	# 45	[c=4 l=2]  *movsi_internal/0
	popq	%rbx	# 64	[c=9 l=1]  *popdi1
	.cfi_remember_state
	.cfi_def_cfa_offset 24
	popq	%rbp	# 65	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 16
	popq	%r12	# 66	[c=9 l=2]  *popdi1
	.cfi_def_cfa_offset 8
	ret		# 67	[c=0 l=1]  simple_return_internal
	.p2align 4,,10
	.p2align 3
.L20:
	.cfi_restore_state
	.loc 1 25 13
	movzbl	-1(%rbx), %eax	# 35	[c=13 l=4]  zero_extendqidi2/0
	.loc 1 24 7
	addl	%ebp, %ebp	# 32	[c=4 l=2]  *ashlsi3_1/0
	addq	$1, %rbx	# 87	[c=4 l=4]  *adddi_1/0
	.loc 1 25 13
	movq	(%r12,%rax,8), %rax	# 36	[c=10 l=4]  *movdi_internal/3
	jmp	*%rax	# 88	[c=4 l=2]  *indirect_jump
	.p2align 4,,10
	.p2align 3
.L19:
	.loc 1 22 10
	movl	$1, %edi	# 16	[c=4 l=5]  *movsi_internal/0
	addq	$1, %rbx	# 79	[c=4 l=4]  *adddi_1/0
	call	ext@PLT	# 17	[c=10 l=5]  *call_value
	.loc 1 22 7
	addl	%eax, %ebp	# 19	[c=4 l=2]  *addsi_1/0
	.loc 1 23 13
	movzbl	-2(%rbx), %eax	# 22	[c=13 l=4]  zero_extendqidi2/0
	movq	(%r12,%rax,8), %rax	# 23	[c=10 l=4]  *movdi_internal/3
	jmp	*%rax	# 80	[c=4 l=2]  *indirect_jump
	.cfi_endproc
.LFE5:
	.size	go, .-go
	.p2align 4
	.globl	maybe
	.type	maybe, @function
maybe:
.LFB6:
	.loc 1 28 18
	.cfi_startproc
	.loc 1 28 23
	testl	%edi, %edi	# 6	[c=4 l=2]  *cmpsi_ccno_1/0
	jne	.L30	# 7	[c=13 l=2]  *jcc
	.loc 1 28 52
	xorl	%eax, %eax	# 28	[c=4 l=2]  *movdi_xor
	ret		# 26	[c=0 l=1]  simple_return_internal
	.p2align 4,,10
	.p2align 3
.L30:
	.loc 1 28 34 discriminator 1
	jmp	ext@PLT	# 10	[c=10 l=5]  *sibcall_value
	.cfi_endproc
.LFE6:
	.size	maybe, .-maybe
	.p2align 4
	.globl	fences
	.type	fences, @function
fences:
.LFB7:
	.loc 1 29 18
	.cfi_startproc
	.loc 1 29 31
	xorl	%eax, %eax	# 20	[c=4 l=2]  *movdi_xor
#APP
# 29 "s.c" 1
	1: pause; jne 1b
# 0 "" 2
	.loc 1 29 89
#NO_APP
	ret		# 18	[c=0 l=1]  simple_return_internal
	.cfi_endproc
.LFE7:
	.size	fences, .-fences
	.p2align 4
	.globl	loop
	.type	loop, @function
loop:
.LFB8:
	.loc 1 30 18
	.cfi_startproc
	pushq	%rbx	# 34	[c=4 l=1]  *pushdi2_rex64/0
	.cfi_def_cfa_offset 16
	.cfi_offset 3, -16
	.loc 1 30 18
	movq	%rdi, %rbx	# 2	[c=4 l=3]  *movdi_internal/3
	.loc 1 30 31
	movl	(%rdi), %edi	# 6	[c=5 l=2]  *movsi_internal/0
	.p2align 4,,10
	.p2align 3
.L33:
	.loc 1 30 31 is_stmt 0 discriminator 1
	call	ext@PLT	# 9	[c=10 l=5]  *call_value
	.loc 1 30 28 is_stmt 1 discriminator 1
	addl	(%rbx), %eax	# 12	[c=9 l=2]  *addsi_1/1
	movl	%eax, (%rbx)	# 13	[c=4 l=2]  *movsi_internal/1
	movl	%eax, %edi	# 33	[c=4 l=2]  *movsi_internal/0
	.loc 1 30 52 discriminator 1
	cmpl	$99, %eax	# 17	[c=4 l=3]  *cmpsi_1/0
	jle	.L33	# 18	[c=13 l=2]  *jcc
	.loc 1 30 70 discriminator 2
	movl	$3, %eax	# 24	[c=4 l=5]  *movsi_internal/0
	popq	%rbx	# 37	[c=9 l=1]  *popdi1
	.cfi_def_cfa_offset 8
	ret		# 38	[c=0 l=1]  simple_return_internal
	.cfi_endproc
.LFE8:
	.size	loop, .-loop
	.section	.data.rel.ro.local,"aw"
	.align 16
	.type	to.0, @object
	.size	to.0, 24
to.0:
	.quad	.L19
	.quad	.L20
	.quad	.L22
	.text
.Letext0:
	.section	.text.unlikely
.Letext_cold0:
	.section	.debug_info,"",@progbits
.Ldebug_info0:
	.long	0x11a
	.value	0x5
	.byte	0x1
	.byte	0x8
	.long	.Ldebug_abbrev0
	.uleb128 0x3
	.long	.LASF9
	.byte	0x1d
	.long	.LASF0
	.long	.LASF1
	.long	.LLRL2
	.quad	0
	.long	.Ldebug_line0
	.uleb128 0x4
	.long	.LASF10
	.byte	0x1
	.byte	0x2
	.byte	0xe
	.uleb128 0x5
	.string	"ext"
	.byte	0x1
	.byte	0x1
	.byte	0x5
	.uleb128 0x6
	.long	.LASF2
	.byte	0x1
	.byte	0x1e
	.byte	0x5
	.quad	.LFB8
	.quad	.LFE8-.LFB8
	.uleb128 0x1
	.byte	0x9c
	.uleb128 0x7
	.long	.LASF3
	.byte	0x1
	.byte	0x1d
	.byte	0x5
	.quad	.LFB7
	.quad	.LFE7-.LFB7
	.uleb128 0x1
	.byte	0x9c
	.uleb128 0x1
	.long	.LASF4
	.byte	0x1c
	.quad	.LFB6
	.quad	.LFE6-.LFB6
	.uleb128 0x1
	.byte	0x9c
	.uleb128 0x8
	.string	"go"
	.byte	0x1
	.byte	0x12
	.byte	0x5
	.quad	.LFB5
	.quad	.LFE5-.LFB5
	.uleb128 0x1
	.byte	0x9c
	.uleb128 0x9
	.long	.LASF11
	.byte	0x1
	.byte	0x7
	.byte	0x5
	.long	.LLRL0
	.uleb128 0x1
	.byte	0x9c
	.long	0xc6
	.uleb128 0xa
	.long	0xfe
	.quad	.LBB4
	.long	.LLRL1
	.byte	0x1
	.byte	0xc
	.byte	0x14
	.byte	0
	.uleb128 0x1
	.long	.LASF5
	.byte	0x6
	.quad	.LFB3
	.quad	.LFE3-.LFB3
	.uleb128 0x1
	.byte	0x9c
	.uleb128 0x1
	.long	.LASF6
	.byte	0x5
	.quad	.LFB2
	.quad	.LFE2-.LFB2
	.uleb128 0x1
	.byte	0x9c
	.uleb128 0x2
	.long	.LASF7
	.byte	0x4
	.byte	0x26
	.byte	0x1
	.uleb128 0x2
	.long	.LASF8
	.byte	0x3
	.byte	0x13
	.byte	0x3
	.uleb128 0xb
	.long	0xf6
	.quad	.LFB9
	.quad	.LFE9-.LFB9
	.uleb128 0x1
	.byte	0x9c
	.byte	0
	.section	.debug_abbrev,"",@progbits
.Ldebug_abbrev0:
	.uleb128 0x1
	.uleb128 0x2e
	.byte	0
	.uleb128 0x3f
	.uleb128 0x19
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0x21
	.sleb128 1
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0x21
	.sleb128 5
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.uleb128 0x40
	.uleb128 0x18
	.byte	0
	.byte	0
	.uleb128 0x2
	.uleb128 0x2e
	.byte	0
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0x21
	.sleb128 1
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x20
	.uleb128 0xb
	.byte	0
	.byte	0
	.uleb128 0x3
	.uleb128 0x11
	.byte	0x1
	.uleb128 0x25
	.uleb128 0xe
	.uleb128 0x13
	.uleb128 0xb
	.uleb128 0x3
	.uleb128 0x1f
	.uleb128 0x1b
	.uleb128 0x1f
	.uleb128 0x55
	.uleb128 0x17
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x10
	.uleb128 0x17
	.byte	0
	.byte	0
	.uleb128 0x4
	.uleb128 0x34
	.byte	0
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x3f
	.uleb128 0x19
	.uleb128 0x3c
	.uleb128 0x19
	.byte	0
	.byte	0
	.uleb128 0x5
	.uleb128 0x2e
	.byte	0
	.uleb128 0x3f
	.uleb128 0x19
	.uleb128 0x3
	.uleb128 0x8
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x3c
	.uleb128 0x19
	.byte	0
	.byte	0
	.uleb128 0x6
	.uleb128 0x2e
	.byte	0
	.uleb128 0x3f
	.uleb128 0x19
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.uleb128 0x40
	.uleb128 0x18
	.uleb128 0x7c
	.uleb128 0x19
	.byte	0
	.byte	0
	.uleb128 0x7
	.uleb128 0x2e
	.byte	0
	.uleb128 0x3f
	.uleb128 0x19
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.uleb128 0x40
	.uleb128 0x18
	.uleb128 0x7a
	.uleb128 0x19
	.byte	0
	.byte	0
	.uleb128 0x8
	.uleb128 0x2e
	.byte	0
	.uleb128 0x3f
	.uleb128 0x19
	.uleb128 0x3
	.uleb128 0x8
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.uleb128 0x40
	.uleb128 0x18
	.uleb128 0x7c
	.uleb128 0x19
	.byte	0
	.byte	0
	.uleb128 0x9
	.uleb128 0x2e
	.byte	0x1
	.uleb128 0x3f
	.uleb128 0x19
	.uleb128 0x3
	.uleb128 0xe
	.uleb128 0x3a
	.uleb128 0xb
	.uleb128 0x3b
	.uleb128 0xb
	.uleb128 0x39
	.uleb128 0xb
	.uleb128 0x55
	.uleb128 0x17
	.uleb128 0x40
	.uleb128 0x18
	.uleb128 0x1
	.uleb128 0x13
	.byte	0
	.byte	0
	.uleb128 0xa
	.uleb128 0x1d
	.byte	0
	.uleb128 0x31
	.uleb128 0x13
	.uleb128 0x52
	.uleb128 0x1
	.uleb128 0x55
	.uleb128 0x17
	.uleb128 0x58
	.uleb128 0xb
	.uleb128 0x59
	.uleb128 0xb
	.uleb128 0x57
	.uleb128 0xb
	.byte	0
	.byte	0
	.uleb128 0xb
	.uleb128 0x2e
	.byte	0
	.uleb128 0x31
	.uleb128 0x13
	.uleb128 0x11
	.uleb128 0x1
	.uleb128 0x12
	.uleb128 0x7
	.uleb128 0x40
	.uleb128 0x18
	.uleb128 0x7c
	.uleb128 0x19
	.byte	0
	.byte	0
	.byte	0
	.section	.debug_aranges,"",@progbits
	.long	0x3c
	.value	0x2
	.long	.Ldebug_info0
	.byte	0x8
	.byte	0
	.value	0
	.value	0
	.quad	.Ltext0
	.quad	.Letext0-.Ltext0
	.quad	.Ltext_cold0
	.quad	.Letext_cold0-.Ltext_cold0
	.quad	0
	.quad	0
	.section	.debug_rnglists,"",@progbits
.Ldebug_ranges0:
	.long	.Ldebug_ranges3-.Ldebug_ranges2
.Ldebug_ranges2:
	.value	0x5
	.byte	0x8
	.byte	0
	.long	0
.LLRL0:
	.byte	0x7
	.quad	.LFB4
	.uleb128 .LHOTE0-.LFB4
	.byte	0x7
	.quad	.LFSB4
	.uleb128 .LCOLDE0-.LFSB4
	.byte	0
.LLRL1:
	.byte	0x5
	.quad	.LBB4
	.byte	0x4
	.uleb128 .LBB4-.LBB4
	.uleb128 .LBE4-.LBB4
	.byte	0x4
	.uleb128 .LBB7-.LBB4
	.uleb128 .LBE7-.LBB4
	.byte	0
.LLRL2:
	.byte	0x7
	.quad	.Ltext0
	.uleb128 .Letext0-.Ltext0
	.byte	0x7
	.quad	.Ltext_cold0
	.uleb128 .Letext_cold0-.Ltext_cold0
	.byte	0
.Ldebug_ranges3:
	.section	.debug_line,"",@progbits
.Ldebug_line0:
	.section	.debug_str,"MS",@progbits,1
.LASF11:
	.string	"choose"
.LASF9:
	.string	"GNU C17 12.2.0 -mtune=generic -march=x86-64 -g1 -O2 -fasynchronous-unwind-tables"
.LASF4:
	.string	"maybe"
.LASF7:
	.string	"inner"
.LASF3:
	.string	"fences"
.LASF8:
	.string	"twice"
.LASF2:
	.string	"loop"
.LASF10:
	.string	"table"
.LASF6:
	.string	"tail"
.LASF5:
	.string	"indirect"
	.section	.debug_line_str,"MS",@progbits,1
.LASF0:
	.string	"s.c"
.LASF1:
	.string	"/src"
	.ident	"GCC: (Debian 12.2.0-14+deb12u1) 12.2.0"
	.section	.note.GNU-stack,"",@progbits
